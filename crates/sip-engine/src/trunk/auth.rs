//! What one shard has of trunks: the nonces of each, and what it has taken over of what all
//! know (`docs/decisions/0212-which-challenges-are-answered.md`).

use std::sync::Arc;

use invariant::broken;
use sip_auth::{Attempt, ClientAuth, GiveUp, RequestParts, Side};
use sip_msg::header::AuthParams;
use sip_msg::{HeaderName, Message, Target};

use super::retried::Retried;
use super::trust::{self, Named};
use super::{Credentials, SharedTrunks, Trunk};
use crate::Settings;
use crate::records::printable;
use crate::routes::GatewayGroup;
use crate::settings::TrustedPeer;

/// How many reused nonces in a row may be refused before none is reused for a while.
const SPURNED_MAX: u8 = 2;
/// Which request after that tries one again. Whoever is called may have refused both in the
/// provider's name; and a provider that takes none needs a round trip in any case.
const TRIED_AGAIN_AT: u8 = 100;
/// How often in a row a password that has been accepted may be refused before it is left alone.
const DOUBTS_MAX: u8 = 3;

/// The trunks of one shard.
pub(crate) struct Trunks {
    is_any: bool,
    accounts: Vec<(Arc<str>, Account)>,
    named: Named,
    /// Of the addresses of names; `None` before they were looked at.
    version: Option<u64>,
    pub(crate) retried: Retried,
}

/// The password of a trunk, and the nonces that it was asked with.
pub(crate) struct Account {
    credentials: Credentials,
    auth: ClientAuth,
    /// How often in a row a nonce was refused that had been taken before.
    spurned: u8,
    /// How many requests have waited to be asked since then.
    waited: u8,
    /// Whether it was ever taken, and how often in a row it was refused after that.
    is_proven: bool,
    doubts: u8,
}

impl Trunks {
    /// Those of these settings; the key is secret.
    pub(crate) fn new(settings: &Settings, key: [u8; 16]) -> Self {
        let mut trunks = Self {
            is_any: false,
            accounts: Vec::new(),
            named: Named::default(),
            version: None,
            retried: Retried::new(key),
        };
        trunks.reload(settings, None);
        trunks
    }

    /// Takes other settings over. Whoever has other credentials than before may be right now.
    pub(crate) fn reload(&mut self, settings: &Settings, shared: Option<&SharedTrunks>) {
        self.is_any = all(settings).next().is_some();
        self.version = None;
        let mut before = std::mem::take(&mut self.accounts);
        for trunk in all(settings) {
            let Some(credentials) = &trunk.credentials else {
                continue;
            };
            let known = before.iter().position(|(name, _)| *name == trunk.name);
            let known = known.map(|at| before.swap_remove(at).1);
            let account = match known.filter(|of| of.credentials == *credentials) {
                Some(same) => same,
                None => {
                    if let Some(shared) = shared {
                        shared.forget_refusals(&trunk.name);
                    }
                    Account::new(credentials)
                }
            };
            self.accounts.push((Arc::clone(&trunk.name), account));
        }
    }

    /// Whether there is any trunk.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any
    }

    /// Whether what all know of members' addresses has changed, or was never looked at.
    pub(crate) fn is_behind(&self, shared: &SharedTrunks) -> bool {
        match self.version {
            None => self.is_any,
            Some(version) => self.named.is_any() && version != shared.version(),
        }
    }

    /// Takes over what all know of members' addresses; the list of peers with those that
    /// trunks bring, in the place of the one at hand.
    pub(crate) fn take_over(
        &mut self,
        settings: &Settings,
        shared: &SharedTrunks,
    ) -> Vec<TrustedPeer> {
        self.version = Some(shared.version());
        self.named = Named::read(settings, |name| shared.addresses(name));
        let listed = settings.trusted.iter();
        let listed = listed.filter(|peer| peer.trunk.is_none()).cloned();
        listed
            .chain(trust::entries(settings, &self.named))
            .collect()
    }

    /// Whether a trunk's password may be used at that place.
    pub(crate) fn is_member(&self, settings: &Settings, trunk: &Trunk, to: &Target) -> bool {
        let group = group_of(settings, trunk);
        group.is_some_and(|group| trust::is_member(group, &self.named, to))
    }

    /// The account of a trunk, if it has one.
    pub(crate) fn account(&mut self, name: &str) -> Option<&mut Account> {
        let mut accounts = self.accounts.iter_mut();
        accounts
            .find(|(of, _)| **of == *name)
            .map(|(_, account)| account)
    }

    /// The same, as long as its credentials are those of a request's settings: after a reload
    /// they may be others, which are for none of the members of before.
    pub(crate) fn account_of(&mut self, trunk: &Trunk) -> Option<&mut Account> {
        let account = self.account(&trunk.name)?;
        account
            .is_with(trunk.credentials.as_ref())
            .then_some(account)
    }
}

/// The trunks of these settings.
pub(crate) fn all(settings: &Settings) -> impl Iterator<Item = &Arc<Trunk>> {
    let groups = settings.routes.groups.iter();
    groups.filter_map(|group| group.trunk.as_ref())
}

/// The group of a trunk.
pub(crate) fn group_of<'s>(settings: &'s Settings, trunk: &Trunk) -> Option<&'s GatewayGroup> {
    let mut groups = settings.routes.groups.iter();
    groups.find(|group| {
        let of = group.trunk.as_ref();
        of.is_some_and(|of| of.name == trunk.name)
    })
}

impl Account {
    pub(crate) fn new(credentials: &Credentials) -> Self {
        let mut auth = ClientAuth::new();
        auth.add(
            &credentials.realm,
            &credentials.user,
            credentials.password.expose(),
        );
        if let Some(weakest) = credentials.weakest {
            auth.require(weakest);
        }
        Self {
            credentials: credentials.clone(),
            auth,
            spurned: 0,
            waited: 0,
            is_proven: false,
            doubts: 0,
        }
    }

    /// Puts the credentials for a request into it: the request is `bytes[start..]`, as it will
    /// be sent. Whether there were any: before a challenge only a nonce from before is used,
    /// and only where that may be.
    pub(crate) fn authorize(
        &mut self,
        attempt: &mut Attempt,
        is_challenged: bool,
        cnonce: u64,
        bytes: &mut Vec<u8>,
        start: usize,
    ) -> bool {
        if !is_challenged && (self.must_wait() || !self.auth.may_reuse_nonces()) {
            self.auth.forget_nonces();
        }
        let request = bytes.get(start..).unwrap_or_default();
        let Some((at, parts)) = parts_of(request) else {
            return broken!("what is about to be sent is a request", false);
        };
        let mut lines = Vec::new();
        self.auth
            .write_credentials(attempt, parts, cnonce, &mut lines);
        let has_any = !lines.is_empty();
        let place = start + at;
        drop(bytes.splice(place..place, lines));
        has_any
    }

    /// Whether a request has to wait until it is asked, because nonces that were used again were
    /// refused.
    fn must_wait(&mut self) -> bool {
        if self.spurned < SPURNED_MAX {
            return false;
        }
        self.waited += 1;
        if self.waited < TRIED_AGAIN_AT {
            return true;
        }
        // Once more refused, and it is as before.
        (self.spurned, self.waited) = (SPURNED_MAX - 1, 0);
        false
    }

    /// Takes up a challenge. `was_ahead`: whether the request bore credentials before it was
    /// ever challenged.
    pub(crate) fn challenged(
        &mut self,
        attempt: &mut Attempt,
        response: &Message,
        was_ahead: bool,
    ) -> Result<(), GiveUp> {
        let taken_up = self.auth.handle_challenge(attempt, response);
        self.note(taken_up, was_ahead)
    }

    /// The same of a challenge to a call: by the header of its status alone. What stands in the other is
    /// from further away.
    pub(crate) fn challenged_by(
        &mut self,
        side: Side,
        attempt: &mut Attempt,
        response: &Message,
        was_ahead: bool,
    ) -> Result<(), GiveUp> {
        let taken_up = self.auth.handle_challenge_by(side, attempt, response);
        self.note(taken_up, was_ahead)
    }

    fn note(&mut self, taken_up: Result<(), GiveUp>, was_ahead: bool) -> Result<(), GiveUp> {
        match taken_up {
            Ok(()) if was_ahead => self.spurned = self.spurned.saturating_add(1),
            // The next request waits to be asked.
            Err(GiveUp::Rejected) => self.auth.forget_nonces(),
            _ => {}
        }
        taken_up
    }

    /// Whether a challenge is for this account's realm.
    pub(crate) fn is_for(&self, response: &Message) -> bool {
        let names = [HeaderName::WwwAuthenticate, HeaderName::ProxyAuthenticate];
        let mut fields = names.into_iter().flat_map(|name| response.fields_of(name));
        fields.any(|field| {
            let params = AuthParams::parse(field.value);
            let realm = params.as_ref().and_then(|params| params.get("realm"));
            realm.is_some_and(|realm| realm.is(self.credentials.realm.as_bytes()))
        })
    }

    /// Whether these are its credentials.
    pub(crate) fn is_with(&self, credentials: Option<&Credentials>) -> bool {
        credentials == Some(&self.credentials)
    }

    /// Whether the provider may ask by that header.
    pub(crate) fn is_asked_by(&self, side: Side) -> bool {
        self.credentials.asked_by.is_none_or(|of| of == side)
    }

    /// The credentials were taken.
    pub(crate) fn taken(&mut self) {
        (self.is_proven, self.doubts) = (true, 0);
    }

    /// The credentials were refused; whether they are to be left alone now. Whoever is called could
    /// say so in the provider's name: that is not believed at once where they were taken before.
    pub(crate) fn refused(&mut self) -> bool {
        self.doubts = self.doubts.saturating_add(1);
        self.is_proven &= self.doubts < DOUBTS_MAX;
        !self.is_proven
    }

    /// Credentials that went ahead of a challenge were taken.
    pub(crate) fn taken_ahead(&mut self) {
        (self.spurned, self.waited) = (0, 0);
    }
}

/// Where the headers of a request begin, and what of it a digest covers.
fn parts_of(request: &[u8]) -> Option<(usize, RequestParts<'_>)> {
    let line_end = memchr::memmem::find(request, b"\r\n")?;
    let mut words = request.get(..line_end)?.split(|byte| *byte == b' ');
    let (method, uri) = (words.next()?, words.next()?);
    let body = memchr::memmem::find(request, b"\r\n\r\n")? + 4;
    let parts = RequestParts {
        method,
        uri,
        body: request.get(body..)?,
    };
    Some((line_end + 2, parts))
}

/// The realm of the first challenge that has one, safe to be shown.
pub(crate) fn realm_of(response: &Message) -> Box<str> {
    let names = [HeaderName::WwwAuthenticate, HeaderName::ProxyAuthenticate];
    let mut fields = names.into_iter().flat_map(|name| response.fields_of(name));
    let realm = fields.find_map(|field| {
        let params = AuthParams::parse(field.value)?;
        params.get("realm").map(|realm| realm.raw)
    });
    printable(realm.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;
    use crate::trunk::of_tests;

    const INVITE: &str = "INVITE sip:+49301@provider.example SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\n\
        From: <sip:a@a>;tag=1\r\nTo: <sip:b@b>\r\nCall-ID: c\r\nCSeq: 4 INVITE\r\nContent-Length: 4\r\n\r\nbody";

    fn challenge(realm: &str, nonce: &str, rest: &str) -> Message {
        parse(
            format!(
                "SIP/2.0 407 Who\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@a>;tag=1\r\nTo: <sip:b@b>;tag=2\r\n\
                 Call-ID: c\r\nCSeq: 4 INVITE\r\nProxy-Authenticate: Digest realm=\"{realm}\", nonce=\"{nonce}\"{rest}\r\n\
                 Content-Length: 0\r\n\r\n"
            )
            .as_bytes(),
        )
    }

    fn account() -> Account {
        Account::new(of_tests().credentials.as_ref().unwrap())
    }

    /// The request as it is sent.
    fn sent(account: &mut Account, attempt: &mut Attempt, is_challenged: bool) -> String {
        let mut bytes = b"before".to_vec();
        let start = bytes.len();
        bytes.extend_from_slice(INVITE.as_bytes());
        account.authorize(attempt, is_challenged, 7, &mut bytes, start);
        let text = String::from_utf8(bytes).unwrap();
        let request = text.strip_prefix("before").unwrap();
        parse(request.as_bytes());
        request.to_owned()
    }

    #[test]
    fn credentials_stand_behind_the_first_line_and_nothing_else_changes() {
        let mut account = account();
        let mut attempt = Attempt::default();
        assert_eq!(sent(&mut account, &mut attempt, false), INVITE);
        let response = challenge("provider.example", "n", ", qop=\"auth\"");
        account.challenged(&mut attempt, &response, false).unwrap();
        let request = sent(&mut account, &mut attempt, true);
        let (first, rest) = request.split_once("\r\n").unwrap();
        let (line, rest) = rest.split_once("\r\n").unwrap();
        assert_eq!(format!("{first}\r\n{rest}"), INVITE);
        assert!(line.starts_with("Proxy-Authorization: Digest username=\"4930100\""));
        for part in [
            "uri=\"sip:+49301@provider.example\"",
            "nc=00000001",
            "nonce=\"n\"",
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
        assert!(!request.contains("swordfish"));
    }

    #[test]
    fn a_nonce_is_used_again_with_a_higher_count_and_by_nobody_who_refuses_that() {
        let mut account = account();
        let mut first = Attempt::default();
        let qop = ", qop=\"auth\"";
        let response = challenge("provider.example", "n", qop);
        account.challenged(&mut first, &response, false).unwrap();
        sent(&mut account, &mut first, true);
        for (nonce, count) in [("n", 2), ("n", 3)] {
            let mut next = Attempt::default();
            let request = sent(&mut account, &mut next, false);
            assert!(request.contains(&format!("nonce=\"{nonce}\"")));
            assert!(request.contains(&format!("nc={count:08x}")), "{request}");
            account.taken_ahead();
        }
        for round in 0..SPURNED_MAX {
            let mut next = Attempt::default();
            assert!(sent(&mut account, &mut next, false).contains("nc="));
            let again = challenge("provider.example", &format!("n{round}"), qop);
            account.challenged(&mut next, &again, true).unwrap();
            assert!(sent(&mut account, &mut next, true).contains("nc=00000001"));
        }
        assert_eq!(sent(&mut account, &mut Attempt::default(), false), INVITE);
    }

    #[test]
    fn who_refuses_nonces_that_were_used_is_asked_and_one_is_tried_again_in_time() {
        let mut account = account();
        let qop = ", qop=\"auth\"";
        // Asked until a nonce goes ahead; how often.
        let asked = |account: &mut Account| {
            for round in 0_usize..1_000 {
                let mut attempt = Attempt::default();
                if sent(account, &mut attempt, false).contains("nc=") {
                    return (round, attempt);
                }
                let response = challenge("provider.example", &format!("n{round}"), qop);
                account.challenged(&mut attempt, &response, false).unwrap();
                sent(account, &mut attempt, true);
            }
            panic!("none is tried again");
        };
        assert_eq!(asked(&mut account).0, 1);
        let refuse = |account: &mut Account, mut attempt: Attempt, nonce: &str| {
            let response = challenge("provider.example", nonce, qop);
            account.challenged(&mut attempt, &response, true).unwrap();
            sent(account, &mut attempt, true);
        };
        for nth in 0..SPURNED_MAX {
            let (round, attempt) = asked(&mut account);
            assert_eq!(round, 0);
            refuse(&mut account, attempt, &format!("other-{nth}"));
        }
        // One more refusal is enough; one that is taken ends it.
        for nth in 0..3 {
            let (round, attempt) = asked(&mut account);
            assert_eq!(round, usize::from(TRIED_AGAIN_AT) - 1);
            refuse(&mut account, attempt, &format!("again-{nth}"));
        }
        assert_eq!(asked(&mut account).0, usize::from(TRIED_AGAIN_AT) - 1);
        account.taken_ahead();
        assert_eq!(asked(&mut account).0, 0);
    }

    #[test]
    fn a_nonce_without_a_count_is_used_once() {
        let mut account = account();
        let mut attempt = Attempt::default();
        let response = challenge("provider.example", "n", "");
        account.challenged(&mut attempt, &response, false).unwrap();
        assert!(sent(&mut account, &mut attempt, true).contains("nonce=\"n\""));
        assert_eq!(sent(&mut account, &mut Attempt::default(), false), INVITE);
    }

    #[test]
    fn another_realm_is_told_and_not_answered() {
        let mut account = account();
        let mut attempt = Attempt::default();
        let foreign = challenge("other.example", "n", "");
        let refused = account.challenged(&mut attempt, &foreign, false);
        assert_eq!(refused, Err(GiveUp::ForeignRealm));
        assert_eq!(sent(&mut account, &mut attempt, true), INVITE);
        assert_eq!(&*realm_of(&foreign), "other.example");
        let named = challenge("My Provider \u{e4}", "n", "");
        assert_eq!(&*realm_of(&named), "My Provider \\xc3\\xa4");
    }
}
