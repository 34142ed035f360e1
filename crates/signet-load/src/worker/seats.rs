//! Seats: the agents of a worker, the connection that each has, and whose turn
//! it is.

use std::collections::{HashMap, VecDeque};

use invariant::broken;
use sip_dialog::{AgentKey, CallKey, RequestKey};
use sip_msg::ConnId;

use super::storm::Back;

/// What an agent does that has its connection to itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Job {
    #[default]
    Nothing,
    Call(CallKey),
    Request(RequestKey),
}

/// An agent and its connection. There may be 100,000 of them: small.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seat {
    /// `None` until it is brought up.
    pub(crate) agent: Option<AgentKey>,
    pub(crate) conn: ConnId,
    /// When the connection was asked for; 0 once it is up.
    pub(crate) opening_since_ns: u64,
    /// Calls and requests that the connection has served.
    pub(crate) served: u32,
    /// What has the connection to itself.
    pub(crate) job: Job,
    pub(crate) is_registered: bool,
    pub(crate) is_ready: bool,
    /// Whether its connection is to resume an earlier session.
    pub(crate) wants_resumption: bool,
    /// Whether a connection of it has been up.
    pub(crate) was_connected: bool,
    /// How far it is back after a storm.
    pub(crate) back: Back,
}

/// All of a worker's.
pub(crate) struct Seats {
    seats: Vec<Seat>,
    /// Seats that nobody uses, where each serves one job at a time.
    free: VecDeque<u32>,
    by_conn: HashMap<u64, u32>,
    cursor: usize,
}

/// Seats that are looked at before it is said that there is none.
const LOOKS_MAX: usize = 64;

impl Seats {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            seats: vec![Seat::default(); count],
            free: VecDeque::new(),
            by_conn: HashMap::new(),
            cursor: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.seats.len()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter()
    }

    pub(crate) fn at(&self, number: u32) -> Option<&Seat> {
        self.seats.get(number as usize)
    }

    pub(crate) fn at_mut(&mut self, number: u32) -> Option<&mut Seat> {
        self.seats.get_mut(number as usize)
    }

    /// One seat more.
    pub(crate) fn grow(&mut self) -> u32 {
        self.seats.push(Seat::default());
        u32::try_from(self.seats.len() - 1).unwrap_or(u32::MAX)
    }

    pub(crate) fn seat_down(&mut self, number: u32, agent: AgentKey) {
        match self.at_mut(number) {
            Some(seat) => seat.agent = Some(agent),
            None => broken!("seats are never taken away"),
        }
    }

    /// Gives a seat a connection of its own.
    pub(crate) fn give_conn(&mut self, number: u32, conn: ConnId, now_ns: u64) {
        let Some(seat) = self.at_mut(number) else {
            return broken!("seats are never taken away");
        };
        let old = std::mem::replace(&mut seat.conn, conn);
        seat.opening_since_ns = now_ns.max(1);
        seat.served = 0;
        self.by_conn.remove(&old.0);
        self.by_conn.insert(conn.0, number);
    }

    pub(crate) fn of_conn(&self, conn: ConnId) -> Option<u32> {
        self.by_conn.get(&conn.0).copied()
    }

    /// The connection is gone; gives whose it was.
    pub(crate) fn lose_conn(&mut self, conn: ConnId) -> Option<u32> {
        let number = self.by_conn.remove(&conn.0)?;
        let Some(seat) = self.at_mut(number) else {
            return broken!("seats are never taken away", None);
        };
        if seat.conn == conn {
            seat.conn = ConnId::NONE;
            seat.opening_since_ns = 0;
        }
        Some(number)
    }

    /// A seat that serves one job at a time is free again.
    pub(crate) fn free(&mut self, number: u32) {
        let Some(seat) = self.at_mut(number) else {
            return broken!("seats are never taken away");
        };
        seat.job = Job::Nothing;
        self.free.push_back(number);
    }

    /// The seat that has been free for longest.
    pub(crate) fn take_free(&mut self, fits: impl Fn(&Seat) -> bool) -> Option<u32> {
        for _ in 0..self.free.len().min(LOOKS_MAX) {
            let number = self.free.pop_front()?;
            if self.at(number).is_some_and(&fits) {
                return Some(number);
            }
            self.free.push_back(number);
        }
        None
    }

    /// The next seat that fits, in turn.
    pub(crate) fn next(&mut self, fits: impl Fn(&Seat) -> bool) -> Option<u32> {
        for _ in 0..self.seats.len().min(LOOKS_MAX) {
            let number = self.cursor;
            self.cursor = (self.cursor + 1) % self.seats.len();
            if self.seats.get(number).is_some_and(&fits) {
                return u32::try_from(number).ok();
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_round_and_pass_over_who_does_not_fit() {
        let mut seats = Seats::new(3);
        for number in [0, 2] {
            seats.at_mut(number).unwrap().is_ready = true;
        }
        let turns: Vec<_> = (0..4).map(|_| seats.next(|seat| seat.is_ready)).collect();
        assert_eq!(turns, [Some(0), Some(2), Some(0), Some(2)]);
        assert_eq!(seats.next(|_| false), None);
    }

    #[test]
    fn a_connection_leads_to_its_seat_until_it_is_lost_or_replaced() {
        let mut seats = Seats::new(1);
        seats.give_conn(0, ConnId(7), 5);
        assert_eq!(seats.of_conn(ConnId(7)), Some(0));
        seats.give_conn(0, ConnId(8), 6);
        assert_eq!(
            (seats.of_conn(ConnId(7)), seats.of_conn(ConnId(8))),
            (None, Some(0))
        );
        assert_eq!(seats.lose_conn(ConnId(8)), Some(0));
        assert!(!seats.at(0).unwrap().conn.is_some());
        assert_eq!(seats.lose_conn(ConnId(8)), None);
    }

    #[test]
    fn an_idle_seat_is_small() {
        assert!(size_of::<Seat>() <= 64, "{}", size_of::<Seat>());
    }
}
