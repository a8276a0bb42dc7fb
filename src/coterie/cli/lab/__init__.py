"""`coterie lab`: seeds and studies, over this machine's cores or Spark."""
