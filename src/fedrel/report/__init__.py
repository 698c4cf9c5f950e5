"""What a finished run looks like: charts, and one page that holds all of them."""
