"""A model that can be used: its folder, its predictions, its card; docs/model.md."""
