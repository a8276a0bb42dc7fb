"""What must hold in a story after every step: of a group, of its log, of a member."""
