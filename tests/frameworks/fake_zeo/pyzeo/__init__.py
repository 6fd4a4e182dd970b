"""Stands in for pyzeo in the process of Zeo++, to fail in every way that Zeo++ could."""
