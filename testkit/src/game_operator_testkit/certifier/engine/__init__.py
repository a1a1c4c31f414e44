"""How scenarios are chosen, played and judged."""
