"""Groups of both protocols as others see them: described, listed and explained."""
