//! A track: points over time for a plot, of which there are never too many, however long a run takes.

use std::time::Duration;

/// As many as a plot can show.
const POINTS_MAX: usize = 2_000;

/// Points at even distances; when they become too many every second one goes, and the distance
/// doubles.
#[derive(Debug)]
pub(crate) struct Track<P> {
    every: Duration,
    points: Vec<P>,
}

impl<P> Track<P> {
    /// With this distance at first.
    pub(crate) const fn new(every: Duration) -> Self {
        Self {
            every,
            points: Vec::new(),
        }
    }

    /// The time until the next point is due.
    pub(crate) const fn every(&self) -> Duration {
        self.every
    }

    /// A further point.
    pub(crate) fn push(&mut self, point: P) {
        if self.points.len() >= POINTS_MAX {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.every *= 2;
        }
        self.points.push(point);
    }

    /// All that are left.
    pub(crate) fn into_points(self) -> Vec<P> {
        self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_stay_few_and_even() {
        let every = Duration::from_millis(1);
        let mut track = Track::new(every);
        for point in 0..POINTS_MAX {
            track.push(point);
        }
        assert_eq!(track.every(), every);
        track.push(POINTS_MAX);
        assert_eq!(track.every(), every * 2);
        let points = track.into_points();
        assert_eq!(points.len(), POINTS_MAX / 2 + 1);
        assert!(points.windows(2).all(|pair| pair[1] - pair[0] == 2));
    }
}
