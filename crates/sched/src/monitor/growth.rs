//! Tells when the number of threads has passed a power of two.

use crate::{catch_panic, shared::Shared};

pub(super) struct Growth {
    workers: usize,
    /// The power that was told last, or that the number has shrunk to since.
    power: usize,
}

impl Growth {
    pub(super) fn new(workers: usize) -> Self {
        Self { workers, power: 1 }
    }

    pub(super) fn look(&mut self, shared: &Shared, threads: usize) {
        if self.has_passed(threads) {
            catch_panic::call(|| shared.settings.observer.threads_grew(threads));
        }
    }

    /// Whether it has passed a power of two above twice the workers that is to be told.
    fn has_passed(&mut self, threads: usize) -> bool {
        let power = threads.checked_ilog2().map_or(1, |log| 1 << log);
        let is_news = power > self.power && power > 2 * self.workers;
        if is_news || threads <= self.power / 2 {
            self.power = power;
        }
        is_news
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_power_is_told_once_until_the_number_has_halved() {
        let mut growth = Growth::new(4);
        let mut told = |numbers: &[usize]| -> Vec<usize> {
            let numbers = numbers.iter().copied();
            numbers.filter(|&it| growth.has_passed(it)).collect()
        };
        assert_eq!(told(&[4, 8, 15, 16, 17, 20, 31]), [16]);
        assert_eq!(told(&[15, 9, 16, 33, 63, 100]), [33, 100]);
        assert_eq!(told(&[33, 64, 32, 63, 64, 127]), [64]);
        assert_eq!(told(&[0, 8, 5, 16]), [16]);
    }
}
