//! Seats: the agents of a worker, the connection that each has, and whose turn
//! it is.

use std::collections::{HashMap, VecDeque};

use invariant::broken;
use sip_dialog::AgentKey;
use sip_msg::ConnId;
use wheel::TimerId;

use super::bits::{Bits, first_from};
use super::storm::Back;

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
    /// The connection whose address its contact has.
    pub(crate) told: ConnId,
    /// When its registration is to be renewed.
    pub(crate) refresh: TimerId,
    /// Whether its registration was to be kept up and is lost.
    pub(crate) is_lost: bool,
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
    /// Those whose agents are up.
    ready: Bits,
    registered: Bits,
    /// Seats that nobody uses, where each serves one job at a time.
    free: VecDeque<u32>,
    /// Of these, those that had their turn and were not registered.
    aside: Bits,
    by_conn: HashMap<u64, u32>,
    cursor: usize,
}

impl Seats {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            seats: vec![Seat::default(); count],
            ready: Bits::default(),
            registered: Bits::default(),
            free: VecDeque::new(),
            aside: Bits::default(),
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

    pub(crate) fn is_ready(&self, number: u32) -> bool {
        self.ready.get(number as usize)
    }

    /// Its agent is up.
    pub(crate) fn set_ready(&mut self, number: u32) {
        self.ready.set(number as usize, true);
    }

    /// Its agent is registered, or is no more.
    pub(crate) fn set_registered(&mut self, number: u32, is_registered: bool) {
        self.registered.set(number as usize, is_registered);
        if is_registered && self.aside.get(number as usize) {
            self.aside.set(number as usize, false);
            self.free.push_back(number);
        }
    }

    fn fits(&self, number: u32, must_be_registered: bool) -> bool {
        let is_registered = self.registered.get(number as usize);
        self.is_ready(number) && (is_registered || !must_be_registered)
    }

    /// A seat that serves one job at a time is free again.
    pub(crate) fn free(&mut self, number: u32) {
        if self.at(number).is_none() {
            return broken!("seats are never taken away");
        }
        self.free.push_back(number);
    }

    /// The seat that has been free for longest.
    pub(crate) fn take_free(&mut self, must_be_registered: bool) -> Option<u32> {
        while let Some(number) = self.free.pop_front() {
            if self.fits(number, must_be_registered) {
                return Some(number);
            }
            self.aside.set(number as usize, true);
        }
        if must_be_registered {
            return None;
        }
        let found = first_from(0, self.aside.words(), |at| self.aside.word(at))?;
        self.aside.set(found, false);
        u32::try_from(found).ok()
    }

    /// The next seat that fits, in turn.
    pub(crate) fn next(&mut self, must_be_registered: bool) -> Option<u32> {
        let word = |at| match must_be_registered {
            true => self.ready.word(at) & self.registered.word(at),
            false => self.ready.word(at),
        };
        let found = first_from(self.cursor, self.ready.words(), word)?;
        self.cursor = (found + 1) % self.seats.len().max(1);
        u32::try_from(found).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_round_and_pass_over_who_does_not_fit() {
        let mut seats = Seats::new(3);
        for number in [0, 2] {
            seats.set_ready(number);
        }
        let turns: Vec<_> = (0..4).map(|_| seats.next(false)).collect();
        assert_eq!(turns, [Some(0), Some(2), Some(0), Some(2)]);
        assert_eq!(seats.next(true), None);
    }

    /// A range of users that the server does not know is passed over, however long it is.
    #[test]
    fn whoever_fits_is_found_among_many_who_do_not() {
        let mut seats = Seats::new(200);
        for number in 0..200 {
            seats.set_ready(number);
            seats.set_registered(number, number >= 150);
            seats.free(number);
        }
        let mut turns = std::collections::BTreeMap::new();
        for _ in 0..500 {
            *turns.entry(seats.next(true).unwrap()).or_insert(0) += 1;
        }
        assert!((150..200).all(|number| turns[&number] == 10), "{turns:?}");
        for number in 150..200 {
            assert_eq!(seats.take_free(true), Some(number));
        }
        assert_eq!(seats.take_free(true), None);
        // Who registers after all has his turn, and who needs not be registered at once.
        seats.set_registered(7, true);
        assert_eq!(seats.take_free(true), Some(7));
        assert_eq!(seats.take_free(true), None);
        assert_eq!(seats.take_free(false), Some(0));
        seats.free(0);
        assert_eq!(seats.take_free(false), Some(0));
        seats.free(0);
        seats.set_registered(0, true);
        assert_eq!(seats.take_free(true), Some(0));
        let rest: Vec<u32> = std::iter::from_fn(|| seats.take_free(false)).collect();
        assert_eq!(rest.len(), 148, "each is there once");
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
