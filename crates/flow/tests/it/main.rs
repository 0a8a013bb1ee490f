//! The decisions against plain models.

mod adaptive;
mod admission;
mod age;
mod config;
mod random;
mod recovery;
mod rounds;
