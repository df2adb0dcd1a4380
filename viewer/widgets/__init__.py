"""Window widgets that know a workspace but no menus: start page, breadcrumb, messages, status line."""
