"""What an operator's staff needs beside calls: books, histories, anomalies, adjustments and pruning."""
