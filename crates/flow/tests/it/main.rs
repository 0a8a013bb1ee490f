//! The decisions against plain models.

mod admission;
mod config;
mod random;
mod recovery;
mod rounds;
