"""What an operator's staff needs beside calls: look-ups, anomalies, adjustments, repairs and checks."""
