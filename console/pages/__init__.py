"""The pages. One module each: a blueprint, the page model as a pure function, and the view."""
