"""What an observer makes of its sights: a machine without IO."""
