"""The observer beside a real cluster: a scripted story, and the causes that it concludes."""
