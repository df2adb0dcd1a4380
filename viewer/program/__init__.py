"""The program itself: settings, folders, language, versions, its one instance, its crash log."""
