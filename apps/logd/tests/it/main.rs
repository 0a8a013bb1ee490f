//! Tests through the public interface.

mod framing;
mod parsing;
