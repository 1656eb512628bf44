"""What lies on disk: records, their seal and names, the ledger, the atomic writer, where a record comes from and whose it is."""
