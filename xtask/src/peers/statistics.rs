//! Median and spread of the few values that rounds give.

/// Where the values of a figure lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Statistics {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) count: usize,
}

impl Statistics {
    /// None for no values. The median of an even number is the mean of the middle two.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self {
            median,
            min,
            max,
            count: values.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_no_values() {
        let odd = Statistics::of(vec![3.0, 1.0, 100.0]).unwrap();
        assert_eq!(
            (odd.median, odd.min, odd.max, odd.count),
            (3.0, 1.0, 100.0, 3)
        );
        assert_eq!(Statistics::of(vec![4.0, 2.0]).unwrap().median, 3.0);
        assert_eq!(Statistics::of(Vec::new()), None);
    }
}
