"""Test runs against the wallet, begun and watched on a page: certifications and storms."""
