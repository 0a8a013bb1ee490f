//! The link from one host to another.

use std::time::Duration;

/// One million: the rates of a link are parts of it.
const MILLION: usize = 1_000_000;

/// The properties of a link in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// The least delay of a packet; default 50 us.
    pub delay_min: Duration,
    /// The largest delay of a packet; default 2 ms. Segments of one connection, and datagrams, keep their order.
    pub delay_max: Duration,
    /// Bytes in a second; default no limit. Packets wait for each other.
    pub bytes_per_second: Option<u64>,
    /// Segments per million that are split at any byte; default 50,000.
    pub split_ppm: u32,
    /// Segments per million with which their connection breaks: one half with a reset of both sides, the other half
    /// silently, so that no packet arrives any more. Default 0.
    pub break_ppm: u32,
    /// Datagrams per million that are lost; default 0.
    pub datagram_loss_ppm: u32,
    /// Datagrams per million that arrive twice; default 0.
    pub datagram_copy_ppm: u32,
    /// Datagrams per million that are overtaken by later ones; default 0.
    pub datagram_late_ppm: u32,
}

impl Default for LinkSettings {
    fn default() -> Self {
        Self {
            delay_min: Duration::from_micros(50),
            delay_max: Duration::from_millis(2),
            bytes_per_second: None,
            split_ppm: 50_000,
            break_ppm: 0,
            datagram_loss_ppm: 0,
            datagram_copy_ppm: 0,
            datagram_late_ppm: 0,
        }
    }
}

impl LinkSettings {
    /// Without delay and splits.
    #[must_use]
    pub fn immediate() -> Self {
        Self {
            delay_min: Duration::ZERO,
            delay_max: Duration::ZERO,
            split_ppm: 0,
            ..Self::default()
        }
    }
}

/// A link and what is under way on it.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// `None` for the network's default.
    pub(super) settings: Option<LinkSettings>,
    /// Nothing arrives.
    pub(super) is_cut: bool,
    /// When its last packet so far has been sent.
    free_ns: u64,
    /// When its last datagram so far arrives.
    last_datagram_ns: u64,
}

impl Link {
    /// Sends a packet at `now_ns`. Returns when it arrives.
    pub(super) fn send(
        &mut self,
        now_ns: u64,
        bytes: usize,
        settings: &LinkSettings,
        random: &mut Random,
    ) -> u64 {
        self.free_ns = self.free_ns.max(now_ns);
        if let Some(rate) = settings.bytes_per_second {
            let sent_ns = bytes as u128 * 1_000_000_000 / u128::from(rate.max(1));
            self.free_ns = self.free_ns.saturating_add(sent_ns as u64);
        }
        let (least_ns, most_ns) = (ns(settings.delay_min), ns(settings.delay_max));
        let spread_ns = random.below_u64(most_ns.saturating_sub(least_ns).saturating_add(1));
        self.free_ns
            .saturating_add(least_ns)
            .saturating_add(spread_ns)
    }

    /// Makes a datagram arrive after those before it.
    pub(super) fn after_earlier(&mut self, due_ns: u64) -> u64 {
        self.last_datagram_ns = due_ns.max(self.last_datagram_ns + 1);
        self.last_datagram_ns
    }
}

pub(super) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The seeded numbers of a network.
#[derive(Debug)]
pub(super) struct Random {
    seed: u64,
    turn: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, turn: 0 }
    }

    fn next(&mut self) -> u64 {
        self.turn += 1;
        freeboard_flow::random::number(self.seed, self.turn)
    }

    /// A number below `limit`; 0 for a limit of 0.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        freeboard_flow::random::below(self.next(), limit)
    }

    pub(super) fn below_u64(&mut self, limit: u64) -> u64 {
        self.below(limit as usize) as u64
    }

    /// True for so many of a million. Without a draw for none.
    pub(super) fn is_one_of(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(MILLION) < ppm as usize
    }
}
