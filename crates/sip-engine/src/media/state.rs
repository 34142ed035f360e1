//! What a response context knows of its media: what each target was offered, the responses that
//! wait for an engine with those behind them, and what an engine has made of those that may come
//! again.

use std::collections::VecDeque;
use std::hash::Hasher;

use invariant::broken;
use sip_media::{EngineId, Shape};
use sip_msg::Message;
use siphasher::sip::SipHasher24;

use super::NewBody;
use crate::text::hex16;
use crate::token::Led;

/// Responses of one context that wait; past it provisional ones and repetitions are dropped.
const HELD_MAX: usize = 16;
/// Descriptions that are kept for responses that come again.
const KEPT_MAX: usize = 4;

/// The media of one response context.
#[derive(Default)]
pub(crate) struct ContextMedia {
    /// The engine that has the dialog, where the request is one within a dialog.
    pub(crate) engine: Option<EngineId>,
    /// Whether the request has a session description: an offer, and what comes back answers it.
    pub(crate) has_offer: bool,
    /// What an engine calls all calls with that Call-ID and these parties.
    call_id: Box<[u8]>,
    /// What tells this one from them, and its targets from each other.
    part: Part,
    /// What was asked for each target of an INVITE that begins a call.
    targets: Vec<TargetMedia>,
    /// The target whose 2xx was passed on.
    answered: Option<u16>,
    held: VecDeque<Held>,
    kept: VecDeque<Kept>,
    last_serial: u32,
}

/// Which of the calls that have one Call-ID it is.
enum Part {
    /// Each target has one of its own, and a branch in it, by a number that no other context has.
    Targets(u64),
    /// The one that the dialog's token names.
    Dialog(Option<u32>),
}

impl Default for Part {
    fn default() -> Self {
        Self::Dialog(None)
    }
}

/// What a target was offered.
pub(crate) struct TargetMedia {
    at: u16,
    /// The engine that has its branch; none where it is called without one.
    pub(crate) engine: Option<EngineId>,
    /// How the offer was changed.
    pub(crate) shape: Shape,
    /// The offer; none where the INVITE has none.
    pub(crate) body: Option<NewBody>,
    /// Whether the engine was told of a response, and so knows who is there.
    is_told: bool,
}

/// A response that is not passed on yet.
struct Held {
    number: u16,
    serial: u32,
    is_final: bool,
    /// What it says, in a hash; 0 where it says nothing.
    said: u64,
    response: Box<Message>,
    is_ready: bool,
}

/// What an engine has made of what a branch has said.
struct Kept {
    number: u16,
    is_final: bool,
    said: u64,
    text: Box<[u8]>,
}

/// What is to be done with a response that has a session description.
pub(crate) enum Next {
    /// It was here before, and this is what the engine has made of it.
    Known(Box<[u8]>),
    /// It was here before, and waits.
    Waits,
    /// There is no room for it.
    Full,
    /// An engine must be asked.
    Ask,
}

impl ContextMedia {
    /// That of a request within a dialog whose media an engine has.
    pub(crate) fn within(led: Led, call_id: Box<[u8]>) -> Self {
        Self {
            engine: Some(led.engine),
            call_id,
            part: Part::Dialog(led.number),
            ..Self::default()
        }
    }

    /// That of an INVITE that begins a call, under a name of its own.
    pub(crate) fn beginning(name: u64, call_id: Box<[u8]>) -> Self {
        Self {
            call_id,
            part: Part::Targets(name),
            ..Self::default()
        }
    }

    /// What an engine calls the call with a target. Whoever else rings has another: the token that he
    /// is given leads to that one alone.
    pub(crate) fn call(&self, at: u16) -> Box<[u8]> {
        numbered(&self.call_id, self.number(at))
    }

    /// The engine of a target, and the number of its call there.
    pub(crate) fn led(&self, at: u16) -> Option<Led> {
        let engine = self.engine_of(at)?;
        let number = self.number(at);
        Some(Led { engine, number })
    }

    /// What the branch to a target is called at an engine.
    pub(crate) fn branch(&self, at: u16) -> [u8; 16] {
        hex16(self.name(at).unwrap_or_default())
    }

    fn name(&self, at: u16) -> Option<u64> {
        match self.part {
            Part::Targets(name) => Some(name.wrapping_add(u64::from(at))),
            Part::Dialog(_) => None,
        }
    }

    fn number(&self, at: u16) -> Option<u32> {
        match self.part {
            Part::Targets(_) => self.name(at).map(|name| name as u32),
            Part::Dialog(number) => number,
        }
    }

    /// What was asked for a target, if anything was.
    pub(crate) fn target(&self, at: u16) -> Option<&TargetMedia> {
        self.targets.iter().find(|target| target.at == at)
    }

    /// Keeps what was asked for a target.
    pub(crate) fn set_target(
        &mut self,
        at: u16,
        engine: Option<EngineId>,
        shape: Shape,
        body: Option<NewBody>,
    ) {
        self.targets.retain(|target| target.at != at);
        self.targets.push(TargetMedia {
            at,
            engine,
            shape,
            body,
            is_told: false,
        });
    }

    /// The engine has left the offer for a target as it was: it leads the call already, on
    /// another part of its way through here.
    pub(crate) fn leave(&mut self, at: u16, shape: Shape) {
        self.engine = None;
        self.set_target(at, None, shape, None);
    }

    /// The engine of a target is told of a response.
    pub(crate) fn tell(&mut self, at: u16) {
        if let Some(target) = self.targets.iter_mut().find(|target| target.at == at) {
            target.is_told = true;
        }
    }

    /// A 2xx of that target is passed on. Where it never said a word of media, an engine knows
    /// the branch alone, which no BYE names: that is let go like those that came to nothing.
    pub(crate) fn is_answered_by(&mut self, at: u16) {
        if self.target(at).is_some_and(|target| target.is_told) {
            self.answered.get_or_insert(at);
        }
    }

    /// The targets that an engine has and that came to nothing. It has them no more.
    pub(crate) fn take_lost(&mut self) -> Vec<(u16, EngineId)> {
        let lost = self.targets.iter_mut();
        let lost = lost.filter(|target| Some(target.at) != self.answered);
        lost.filter_map(|target| Some((target.at, target.engine.take()?)))
            .collect()
    }

    /// The engine of a response to a copy for that target.
    pub(crate) fn engine_of(&self, at: u16) -> Option<EngineId> {
        self.engine.or_else(|| self.target(at)?.engine)
    }

    /// Whether a branch has responses that wait.
    pub(crate) fn holds(&self, number: usize) -> bool {
        self.held.iter().any(|of| usize::from(of.number) == number)
    }

    /// Whether one of them is final.
    pub(crate) fn holds_final(&self, number: usize) -> bool {
        let mut held = self.held.iter();
        held.any(|of| usize::from(of.number) == number && of.is_final)
    }

    /// What is to be done with a response of a branch that says this. Only a copy of one that
    /// waits is left out: another that says the same, as 180 after 183, is not heard otherwise.
    pub(crate) fn next(&self, number: usize, response: &Message, said: u64) -> Next {
        let is_final = response.status() >= 200;
        let kept = self
            .kept
            .iter()
            .find(|of| (usize::from(of.number), of.is_final, of.said) == (number, is_final, said));
        if let Some(kept) = kept {
            return Next::Known(kept.text.clone());
        }
        let is_held = self.held.iter().any(|of| {
            (usize::from(of.number), of.said) == (number, said) && is_copy(&of.response, response)
        });
        match (is_held, self.has_room()) {
            (true, _) => Next::Waits,
            (false, false) => Next::Full,
            (false, true) => Next::Ask,
        }
    }

    /// Whether another response may wait.
    pub(crate) fn has_room(&self) -> bool {
        self.held.len() < HELD_MAX
    }

    /// Has a response wait behind those of its branch; the name by which its own answer finds
    /// it. One without a question is ready when they are.
    pub(crate) fn hold(
        &mut self,
        number: usize,
        response: Box<Message>,
        said: u64,
        is_ready: bool,
    ) -> u32 {
        self.last_serial = self.last_serial.wrapping_add(1);
        self.held.push_back(Held {
            number: number as u16,
            serial: self.last_serial,
            is_final: response.status() >= 200,
            said,
            response,
            is_ready,
        });
        self.last_serial
    }

    /// Takes out a response that waits for its answer; none where it waits no more.
    pub(crate) fn take_held(&mut self, serial: u32) -> Option<(usize, Box<Message>)> {
        let at = self.held.iter().position(|of| of.serial == serial)?;
        // Its place is kept by `put_held`.
        let held = self.held.get_mut(at)?;
        let response = std::mem::take(&mut held.response);
        Some((usize::from(held.number), response))
    }

    /// Puts a response that was taken out back into its place: it is ready. Without one it is
    /// left out.
    pub(crate) fn put_held(&mut self, serial: u32, response: Option<Box<Message>>) {
        let Some(at) = self.held.iter().position(|of| of.serial == serial) else {
            return broken!("what is put back was taken out, and has its place");
        };
        match (response, self.held.get_mut(at)) {
            (Some(response), Some(held)) => {
                held.response = response;
                held.is_ready = true;
            }
            _ => _ = self.held.remove(at),
        }
    }

    /// Keeps what an engine has made of what a branch has said.
    pub(crate) fn keep(&mut self, serial: u32, text: Box<[u8]>) {
        let Some(held) = self.held.iter().find(|of| of.serial == serial) else {
            return broken!("what is kept for a response is kept while that waits");
        };
        let kept = Kept {
            number: held.number,
            is_final: held.is_final,
            said: held.said,
            text,
        };
        if self.kept.len() >= KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(kept);
    }

    /// The next response of a branch that is ready, and has none of its branch before it.
    pub(crate) fn next_ready(&mut self, number: usize) -> Option<Box<Message>> {
        let at = self
            .held
            .iter()
            .position(|of| usize::from(of.number) == number)?;
        let is_ready = self.held.get(at).is_some_and(|of| of.is_ready);
        let held = is_ready.then(|| self.held.remove(at)).flatten()?;
        Some(held.response)
    }

    /// A branch has failed: what it has said before is nobody's any more.
    pub(crate) fn drop_held(&mut self, number: usize, mut take: impl FnMut(Box<Message>)) {
        let mut kept = VecDeque::with_capacity(self.held.len());
        for held in self.held.drain(..) {
            match usize::from(held.number) == number {
                true => take(held.response),
                false => kept.push_back(held),
            }
        }
        self.held = kept;
    }

    /// The final response was passed on: the offers are nobody's any more.
    pub(crate) fn forget_offers(&mut self) {
        for target in &mut self.targets {
            target.body = None;
        }
    }

    /// The memory of what it keeps.
    pub(crate) fn held_bytes(&self) -> usize {
        let held = self.held.iter().map(|held| held.response.held_bytes());
        let kept = self.kept.iter().map(|kept| kept.text.len());
        let bodies = self
            .targets
            .iter()
            .filter_map(|target| target.body.as_ref());
        let bodies = bodies.map(|body| body.text.len());
        size_of::<Self>()
            + self.call_id.len()
            + self.targets.capacity() * size_of::<TargetMedia>()
            + held.chain(kept).chain(bodies).sum::<usize>()
    }
}

/// The name of a call at an engine, with the number that tells it from others of its Call-ID.
pub(super) fn numbered(call_id: &[u8], number: Option<u32>) -> Box<[u8]> {
    let Some(number) = number else {
        return call_id.into();
    };
    let digits = hex16(u64::from(number));
    let (_, digits) = digits.split_at(8);
    [call_id, b";", digits].concat().into()
}

/// Whether a response that says the same is the same response, sent again.
fn is_copy(one: &Message, other: &Message) -> bool {
    // RFC 3262 3: each reliable provisional response has an RSeq of its own.
    let rseq = |of: &Message| of.first_named("RSeq").map(|field| field.value.to_vec());
    one.status() == other.status() && (one.status() >= 200 || rseq(one) == rseq(other))
}

/// What a response says, in a hash that nobody can aim at: the tag of who answers and the
/// session description. Never 0.
pub(crate) fn said(key: &[u8; 16], tag: &[u8], sdp: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_key(key);
    for part in [tag, sdp] {
        hasher.write_u32(part.len() as u32);
        hasher.write(part);
    }
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;

    const A: usize = 0;
    const B: usize = 1;

    fn response(status: u16) -> Box<Message> {
        let text = format!(
            "SIP/2.0 {status} X\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:b@b>;tag=2\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
        );
        Box::new(parse(text.as_bytes()))
    }

    fn ready(media: &mut ContextMedia, number: usize) -> Vec<u16> {
        let all = std::iter::from_fn(|| media.next_ready(number));
        all.map(|response| response.status()).collect()
    }

    fn answer(media: &mut ContextMedia, serial: u32) {
        let (_, response) = media.take_held(serial).unwrap();
        media.put_held(serial, Some(response));
    }

    #[test]
    fn responses_of_a_branch_keep_their_order_and_branches_do_not_wait_for_each_other() {
        let mut media = ContextMedia::default();
        let first = media.hold(A, response(183), 1, false);
        let behind = media.hold(A, response(180), 0, true);
        let last = media.hold(A, response(200), 2, false);
        let other = media.hold(B, response(182), 3, false);
        assert!(media.holds(A) && media.holds(B) && !media.holds(2));
        answer(&mut media, last);
        assert_eq!(ready(&mut media, A), [0; 0]);
        answer(&mut media, other);
        assert_eq!(ready(&mut media, B), [182]);
        answer(&mut media, first);
        assert_eq!(ready(&mut media, A), [183, 180, 200]);
        assert!(!media.holds(A));
        for gone in [first, behind, last, other] {
            assert!(media.take_held(gone).is_none());
        }
    }

    #[test]
    fn what_cannot_be_passed_on_makes_way_for_what_is_behind_it() {
        let mut media = ContextMedia::default();
        let first = media.hold(A, response(183), 1, false);
        media.hold(A, response(180), 0, true);
        assert!(media.take_held(first).is_some());
        media.put_held(first, None);
        assert_eq!(ready(&mut media, A), [180]);
        // Of a branch that has failed nothing is left.
        media.hold(A, response(183), 1, false);
        let other = media.hold(B, response(183), 1, false);
        let mut dropped = 0;
        media.drop_held(A, |_| dropped += 1);
        assert_eq!((dropped, media.holds(A), media.holds(B)), (1, false, true));
        answer(&mut media, other);
        assert_eq!(ready(&mut media, B), [183]);
    }

    #[test]
    fn what_comes_again_is_asked_for_once() {
        let mut media = ContextMedia::default();
        assert!(matches!(media.next(A, &response(200), 7), Next::Ask));
        let serial = media.hold(A, response(200), 7, false);
        assert!(matches!(media.next(A, &response(200), 7), Next::Waits));
        // Another branch, another tag or description, or not final yet.
        assert!(matches!(media.next(B, &response(200), 7), Next::Ask));
        assert!(matches!(media.next(A, &response(200), 8), Next::Ask));
        assert!(matches!(media.next(A, &response(183), 7), Next::Ask));
        media.keep(serial, b"v=0".as_slice().into());
        answer(&mut media, serial);
        assert_eq!(ready(&mut media, A), [200]);
        let Next::Known(text) = media.next(A, &response(200), 7) else {
            panic!("it is kept");
        };
        assert_eq!(&*text, b"v=0");
        assert!(matches!(media.next(A, &response(200), 8), Next::Ask));
    }

    #[test]
    fn what_waits_and_what_is_kept_is_bounded() {
        let mut media = ContextMedia::default();
        let empty = media.held_bytes();
        for said in 0..HELD_MAX as u64 {
            assert!(matches!(media.next(A, &response(183), said + 1), Next::Ask));
            let serial = media.hold(A, response(183), said + 1, false);
            media.keep(serial, b"v=0".as_slice().into());
        }
        assert!(matches!(media.next(A, &response(183), 99), Next::Full));
        assert!(!media.has_room());
        assert_eq!(media.kept.len(), KEPT_MAX);
        assert!(media.held_bytes() > empty + HELD_MAX * 100);
    }

    #[test]
    fn what_was_said_is_told_apart() {
        let key = [3; 16];
        let all = [
            said(&key, b"a", b"bc"),
            said(&key, b"ab", b"c"),
            said(&key, b"a", b"bd"),
            said(&[4; 16], b"a", b"bc"),
        ];
        for (nth, one) in all.iter().enumerate() {
            assert!(*one != 0 && all.iter().skip(nth + 1).all(|other| other != one));
        }
    }

    #[test]
    fn targets_that_came_to_nothing_are_lost_and_the_one_that_answered_is_not() {
        let mut media = ContextMedia::default();
        let engine = |id| Some(EngineId(id));
        media.set_target(0, engine(1), Shape::default(), None);
        media.set_target(1, engine(2), Shape::default(), None);
        media.set_target(2, None, Shape::default(), None);
        media.set_target(0, engine(3), Shape::default(), None);
        assert_eq!(media.engine_of(0), engine(3));
        assert_eq!(media.engine_of(2), None);
        media.is_answered_by(1);
        media.tell(0);
        media.tell(1);
        media.is_answered_by(0);
        media.is_answered_by(1);
        assert_eq!(
            media.take_lost(),
            [(1, EngineId(2))],
            "the first answer counts"
        );
        assert_eq!(media.engine_of(0), engine(3));
        assert_eq!(media.engine_of(1), None, "nobody asks for it again");
        assert_eq!(media.take_lost(), []);
        let led = Led {
            engine: EngineId(9),
            number: None,
        };
        let within = ContextMedia::within(led, Box::default());
        assert_eq!(within.engine_of(5), engine(9));
    }

    #[test]
    fn each_target_has_a_call_of_its_own_and_a_dialog_the_one_of_its_token() {
        let mut media = ContextMedia::beginning(0x1_0000_0007, b"call;parties".as_slice().into());
        for at in 0..2 {
            media.set_target(at, Some(EngineId(9)), Shape::default(), None);
        }
        assert_eq!(&*media.call(0), b"call;parties;00000007");
        assert_eq!(&*media.call(1), b"call;parties;00000008");
        assert_ne!(media.branch(0), media.branch(1));
        for at in 0..2 {
            let led = media.led(at).unwrap();
            let within = ContextMedia::within(led, b"call;parties".as_slice().into());
            assert_eq!(within.call(5), media.call(at));
            assert_eq!(within.led(5), Some(led));
        }
        let nameless = Led {
            engine: EngineId(9),
            number: None,
        };
        let within = ContextMedia::within(nameless, b"call;parties".as_slice().into());
        assert_eq!(&*within.call(0), b"call;parties");
    }
}
