//! countersign makes a person sign off before an MCP tool acts.
