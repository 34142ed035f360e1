//! Trunks: what a group of gateways is more where a provider is behind it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use sip_auth::{Password, Side};
use sip_engine::settings::Mode;
use sip_engine::trunk::{
    Credentials, Identity, NumberFormat, NumberPlan, Numbers, Registering, Trunk as EngineTrunk,
    Trust,
};
use sip_msg::Transport;

use super::Config;
use super::check::Faults;
use super::sections::GatewayGroup;
use super::values::{Advertised, DigestAlgorithm, Domain, Network, NumberPrefix, within};

/// A trunk.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trunk {
    /// The group of gateways that its members are.
    pub group: String,
    /// The provider's domain; without one, the host of the first member.
    pub domain: Option<Domain>,
    /// The user of the account.
    pub user: Option<UserName>,
    /// The user name for challenges, where it is another.
    pub auth_user: Option<String>,
    /// The file with the password.
    pub password_file: Option<PathBuf>,
    /// The realm of the challenges that are answered.
    pub realm: Option<String>,
    /// The weakest algorithm that they may ask for.
    pub algorithm_min: Option<DigestAlgorithm>,
    /// The status of its challenges to calls; without one, either.
    pub challenge_status: Option<ChallengeStatus>,
    /// Seconds that the account is registered for; 0 where it is not.
    #[serde(default, deserialize_with = "within::<_, _, 0, 604_800>")]
    pub register_s: u32,
    /// Host and port of the registered contact, where others see another than the listener's.
    pub contact: Option<Advertised>,
    /// By what the provider knows a caller.
    #[serde(default)]
    pub identity: TrunkIdentity,
    /// Whether To is the called number at the provider's domain.
    #[serde(default)]
    pub rewrite_to: bool,
    /// The number of whoever has none of his own.
    pub number: Option<E164>,
    /// Whose numbers these are.
    #[serde(default)]
    pub numbers: Vec<UsersNumber>,
    /// Who gets the calls to a number that nobody has.
    pub to: Option<UserName>,
    /// The country's code.
    #[serde(default)]
    pub country_code: Digits,
    /// What stands before numbers of other towns.
    #[serde(default)]
    pub national_prefix: Digits,
    /// What stands before numbers of other countries.
    #[serde(default)]
    pub international_prefix: Digits,
    /// How the provider wants numbers.
    #[serde(default)]
    pub format: TrunkFormat,
    /// By what its members are known when they call.
    #[serde(default)]
    pub trust: TrunkTrust,
    /// Further addresses from which they call.
    #[serde(default)]
    pub networks: Vec<Network>,
}

/// A number and the user who has it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsersNumber {
    /// The number.
    pub number: NumberPrefix,
    /// The user, without the domain.
    pub user: UserName,
}

/// By what a provider knows a caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrunkIdentity {
    /// By From as it came.
    #[default]
    AsIs,
    /// By P-Asserted-Identity.
    Pai,
    /// By P-Preferred-Identity.
    Ppi,
    /// By Remote-Party-ID.
    Rpid,
    /// By From.
    From,
}

/// How a provider wants numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrunkFormat {
    /// As they were dialled.
    #[default]
    AsIs,
    /// `+4930123`.
    E164,
    /// `4930123`.
    E164NoPlus,
    /// `030123`.
    National,
}

/// By what the members of a trunk are known when they call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrunkTrust {
    /// By certificates where all are reached over TLS, else by addresses.
    #[default]
    Auto,
    /// By certificates.
    Certificate,
    /// By addresses: as they are written, and as DNS gives them.
    Address,
    /// By nothing.
    None,
}

/// The name of a user, as it stands in a URI.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct UserName(pub Arc<str>);

impl TryFrom<String> for UserName {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+-._~!*'()&=$,".contains(&byte);
        match !text.is_empty() && text.len() <= 128 && text.bytes().all(is_plain) {
            true => Ok(Self(text.into())),
            false => Err(format!(
                "`{text}` is no user\nwrite the name before the `@`, for example alice or 4930123"
            )),
        }
    }
}

/// The status of a challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum ChallengeStatus {
    /// 401, by WWW-Authenticate.
    #[serde(rename = "401")]
    Unauthorized,
    /// 407, by Proxy-Authenticate.
    #[serde(rename = "407")]
    ProxyAuthenticationRequired,
}

impl From<ChallengeStatus> for Side {
    fn from(status: ChallengeStatus) -> Self {
        match status {
            ChallengeStatus::Unauthorized => Self::Registrar,
            ChallengeStatus::ProxyAuthenticationRequired => Self::Proxy,
        }
    }
}

/// A number in E.164: `+4930123`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct E164(pub Arc<str>);

impl TryFrom<String> for E164 {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.strip_prefix('+').unwrap_or_default();
        let is_number =
            (1..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        match is_number {
            true => Ok(Self(text.into())),
            false => Err(format!(
                "`{text}` is no number in E.164\nwrite + and up to 15 digits, for example \"+4930123\""
            )),
        }
    }
}

/// A few digits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Digits(pub Arc<str>);

impl TryFrom<String> for Digits {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        match text.len() <= 8 && text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => Ok(Self(text.into())),
            false => Err(format!(
                "`{text}` is no prefix\nwrite up to 8 digits, for example \"49\" or \"00\""
            )),
        }
    }
}

impl Trunk {
    /// The domain, where its group has a member.
    fn domain(&self, group: &GatewayGroup) -> Arc<str> {
        let first = group.gateways.first().map(|of| of.uri.0.host.clone());
        let written = self.domain.as_ref().map(|domain| domain.0.clone());
        let domain = written.or(first).unwrap_or_default();
        match domain.contains(':') && !domain.starts_with('[') {
            true => format!("[{domain}]").into(),
            false => domain,
        }
    }

    /// What the engine is told; the password is read for itself.
    pub(crate) fn told(&self, group: &GatewayGroup, all: &Config) -> EngineTrunk {
        let user = self.user.as_ref().map(|user| user.0.clone());
        let account = user.unwrap_or_default();
        let credentials = self.realm.as_ref().filter(|_| self.password_file.is_some());
        EngineTrunk {
            name: group.name.as_str().into(),
            domain: self.domain(group),
            credentials: credentials.map(|realm| Credentials {
                realm: realm.as_str().into(),
                user: match &self.auth_user {
                    Some(user) => user.as_str().into(),
                    None => account.clone(),
                },
                password: Password::new(String::new()),
                weakest: self.algorithm_min.map(|algorithm| algorithm.0),
                asked_by: self.challenge_status.map(Side::from),
            }),
            registering: (self.register_s > 0).then(|| Registering {
                expires_s: self.register_s,
                contact: self.contact.as_ref().map(written),
            }),
            account,
            identity: match self.identity {
                TrunkIdentity::AsIs => Identity::AsIs,
                TrunkIdentity::Pai => Identity::Asserted,
                TrunkIdentity::Ppi => Identity::Preferred,
                TrunkIdentity::Rpid => Identity::RemoteParty,
                TrunkIdentity::From => Identity::From,
            },
            rewrites_to: self.rewrite_to,
            numbers: self.told_numbers(),
            trust: self.told_trust(group, all),
        }
    }

    fn told_numbers(&self) -> Numbers {
        let users = self.numbers.iter();
        Numbers {
            plan: NumberPlan {
                country_code: self.country_code.0.clone(),
                national_prefix: self.national_prefix.0.clone(),
                international_prefix: self.international_prefix.0.clone(),
                format: match self.format {
                    TrunkFormat::AsIs => NumberFormat::AsIs,
                    TrunkFormat::E164 => NumberFormat::E164,
                    TrunkFormat::E164NoPlus => NumberFormat::E164NoPlus,
                    TrunkFormat::National => NumberFormat::National,
                },
            },
            main: self.number.as_ref().map(|number| number.0.clone()),
            users: users
                .map(|of| (of.number.0.clone(), of.user.0.clone()))
                .collect(),
            to: self.to.as_ref().map(|user| user.0.clone()),
        }
    }

    fn told_trust(&self, group: &GatewayGroup, all: &Config) -> Trust {
        let is_secure = is_secure(group);
        let mut networks: Vec<_> = self.networks.iter().map(|network| network.0).collect();
        let by_certificate = match self.trust {
            TrunkTrust::None => return Trust::default(),
            TrunkTrust::Certificate => true,
            TrunkTrust::Address => false,
            TrunkTrust::Auto => is_secure,
        };
        if !by_certificate {
            return Trust {
                by_address: true,
                identities: Vec::new(),
                networks,
                secure_only: is_secure,
            };
        }
        let mut identities = Vec::new();
        for gateway in &group.gateways {
            let host = &gateway.uri.0.host;
            match host.parse::<IpAddr>() {
                // No certificate is asked for where an address is written.
                Ok(ip) => networks.push(ip.to_canonical().into()),
                Err(_) => identities.push(proved_by(all, host)),
            }
        }
        identities.dedup();
        Trust {
            by_address: false,
            identities,
            networks,
            secure_only: true,
        }
    }

    fn check(&self, at: &str, faults: &mut Faults) {
        let mut add = |key: &str, what: &str, remedy: &str| {
            faults.add(&format!("{at}.{key}"), what, remedy);
        };
        match (&self.password_file, &self.realm) {
            (Some(_), None) => add(
                "password_file",
                "without a realm nobody knows whose challenges the password may answer",
                "write realm = \"...\": the log and `signet why` show the one that is asked for",
            ),
            (None, Some(_)) => add(
                "realm",
                "without a password no challenge is answered",
                "write password_file = \"FILE\", mode 0600, or drop realm",
            ),
            (Some(_), Some(_)) if self.user.is_none() && self.auth_user.is_none() => add(
                "password_file",
                "a password needs a user",
                "write user = \"...\", as the provider calls the account",
            ),
            _ => {}
        }
        if self.password_file.is_none() {
            let idle = [
                ("auth_user", self.auth_user.is_some()),
                ("algorithm_min", self.algorithm_min.is_some()),
                ("challenge_status", self.challenge_status.is_some()),
            ];
            for (key, _) in idle.into_iter().filter(|(_, is_there)| *is_there) {
                add(
                    key,
                    "without a password no challenge is answered",
                    &format!("write password_file = \"FILE\", mode 0600, or drop {key}"),
                );
            }
        }
        if self.register_s > 0 && self.user.is_none() {
            add(
                "register_s",
                "nobody knows whom to register",
                "write user = \"...\", as the provider calls the account, or drop register_s",
            );
        }
        if self.contact.is_some() && self.register_s == 0 {
            add(
                "contact",
                "nothing is registered, so no contact is shown",
                "write register_s = 3600, or drop contact",
            );
        }
        if self.format == TrunkFormat::National
            && (self.country_code.0.is_empty() || self.international_prefix.0.is_empty())
        {
            add(
                "format",
                "without the country's code and the international prefix no number can be written so",
                "write country_code = \"49\" and international_prefix = \"00\", as it is where the provider is",
            );
        } else if !self.national_prefix.0.is_empty() && self.country_code.0.is_empty() {
            add(
                "national_prefix",
                "nobody knows of which country these numbers are",
                "write country_code = \"49\", as it is where the provider is",
            );
        }
    }

    /// What it comes to, for people.
    fn text(&self, group: &GatewayGroup, all: &Config) -> String {
        let told = self.told(group, all);
        let mut text = match &told.registering {
            Some(registering) => format!(
                "sip:{}@{} is registered for {} s",
                told.account, told.domain, registering.expires_s
            ),
            None => "nothing is registered".to_owned(),
        };
        match &told.credentials {
            Some(credentials) => {
                let _ = write!(
                    text,
                    "; challenges of realm \"{}\" are answered as {}",
                    credentials.realm, credentials.user
                );
            }
            None => text.push_str("; challenges are the caller's"),
        }
        let trust = &told.trust;
        let mut from: Vec<String> = trust.networks.iter().map(ToString::to_string).collect();
        let identities = trust.identities.iter();
        from.extend(identities.map(|of| format!("whoever proves {of}")));
        if trust.by_address {
            from.push("its members' addresses".to_owned());
        }
        match from.is_empty() {
            true => text.push_str("; nobody of it is trusted"),
            false => {
                let _ = write!(
                    text,
                    "; calls to our users are let in from {}",
                    from.join(", ")
                );
            }
        }
        if trust.secure_only {
            text.push_str(", over TLS");
        }
        text
    }
}

/// A host and perhaps a port as they stand in a URI.
fn written(advertised: &Advertised) -> Arc<str> {
    match advertised.port {
        Some(port) => format!("{}:{port}", advertised.host).into(),
        None => advertised.host.clone(),
    }
}

/// Whether all members are reached over TLS alone.
fn is_secure(group: &GatewayGroup) -> bool {
    let is_tls = |transport| transport == Some(Transport::Tls);
    let mut gateways = group.gateways.iter();
    group.security.tls || gateways.all(|of| is_tls(of.uri.0.transport))
}

/// The name that the certificate of a member proves.
fn proved_by(all: &Config, host: &str) -> Arc<str> {
    let host = host.to_ascii_lowercase();
    let mut peers = all.tls.peer.iter();
    let peer = peers.find(|peer| peer.names.iter().any(|name| *name.0 == *host));
    let expected = peer.and_then(|peer| peer.expect.as_ref());
    expected.map_or_else(|| host.as_str().into(), |name| name.0.clone())
}

impl Config {
    /// The trunk that a group of gateways is, if it is one.
    pub(crate) fn trunk_of(&self, group: &GatewayGroup) -> Option<&Trunk> {
        self.trunk.iter().find(|trunk| trunk.group == group.name)
    }

    pub(super) fn check_trunks(&self, faults: &mut Faults) {
        let mut seen = BTreeSet::new();
        for (nth, trunk) in self.trunk.iter().enumerate() {
            let at = format!("trunk.{nth}");
            let mut groups = self.gateway_group.iter();
            match groups.find(|group| group.name == trunk.group) {
                None => {
                    let names: Vec<&str> = self
                        .gateway_group
                        .iter()
                        .map(|group| group.name.as_str())
                        .collect();
                    let remedy = match names.is_empty() {
                        true => {
                            "add a [[gateway_group]] with that name and its gateways".to_owned()
                        }
                        false => format!("write one of: {}", names.join(", ")),
                    };
                    faults.add(
                        &format!("{at}.group"),
                        &format!("there is no group `{}`", trunk.group),
                        &remedy,
                    );
                }
                Some(group) => {
                    let domain = trunk.domain(group);
                    if self.domains.iter().any(|own| *own.0 == *domain) {
                        faults.add(
                            &format!("{at}.domain"),
                            &format!("`{domain}` is one of our own domains"),
                            "write the provider's domain",
                        );
                    }
                    if trunk.trust == TrunkTrust::Certificate && !is_secure(group) {
                        faults.add(
                            &format!("{at}.trust"),
                            "not all members of the group are reached over TLS",
                            "write security = { tls = true } into the group, or trust = \"address\"",
                        );
                    }
                }
            }
            if !seen.insert(trunk.group.as_str()) {
                faults.add(
                    &format!("{at}.group"),
                    &format!("a trunk of the group `{}` stands above", trunk.group),
                    "give each account a group of its own, or drop one of the two",
                );
            }
            trunk.check(&at, faults);
        }
    }

    /// What each trunk comes to, a line for each.
    pub(crate) fn trunks_text(&self) -> String {
        let groups = self.gateway_group.iter();
        let trunks = groups.filter_map(|group| Some((group, self.trunk_of(group)?)));
        trunks
            .map(|(group, trunk)| format!("trunk {}: {}\n", group.name, trunk.text(group, self)))
            .collect()
    }

    pub(super) fn warn_of_trunks(&self, warnings: &mut Vec<String>) {
        for (nth, trunk) in self.trunk.iter().enumerate() {
            if self.mode != Mode::Stateful {
                warnings.push(format!(
                    "trunk.{nth}: in this mode no challenge is answered and no caller is named; write mode = \"stateful\""
                ));
            }
            if !self.authentication.required {
                warnings.push(format!(
                    "trunk.{nth}: whoever reaches this server calls on this account, because authentication.required is false; write authentication.required = true"
                ));
            }
            let is_named = trunk.identity != TrunkIdentity::AsIs;
            if is_named && trunk.number.is_none() && trunk.numbers.is_empty() {
                warnings.push(format!(
                    "trunk.{nth}.identity: users without a number for a name show none; write number = \"+...\" or numbers"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const GROUP: &str =
        "[[gateway_group]]\nname = \"p\"\ngateways = [{ uri = \"sip:sip.p.example\" }]\n";

    fn parse(text: &str) -> Result<Config, String> {
        let text = format!("version = 1\n{text}");
        Config::from_text(Path::new("t.toml"), &text).map_err(|error| error.to_string())
    }

    fn told(group: &str, keys: &str) -> EngineTrunk {
        let config = parse(&format!("{group}[[trunk]]\ngroup = \"p\"\n{keys}")).unwrap();
        let group = &config.gateway_group[0];
        config.trunk_of(group).unwrap().told(group, &config)
    }

    #[test]
    fn what_is_written_reaches_the_engine() {
        let trunk = told(
            GROUP,
            "user = \"4930100\"\nauth_user = \"a@b\"\npassword_file = \"x\"\nrealm = \"My Realm\"\n\
             algorithm_min = \"SHA-256\"\nchallenge_status = \"407\"\nregister_s = 600\ncontact = \"203.0.113.1:5060\"\nidentity = \"pai\"\n\
             number = \"+4930100\"\nnumbers = [{ number = \"+4930101\", user = \"alice\" }]\nto = \"desk\"\n\
             country_code = \"49\"\nnational_prefix = \"0\"\ninternational_prefix = \"00\"\nformat = \"e164-no-plus\"\n",
        );
        assert_eq!((&*trunk.name, &*trunk.domain), ("p", "sip.p.example"));
        let credentials = trunk.credentials.unwrap();
        assert_eq!(
            (&*credentials.realm, &*credentials.user),
            ("My Realm", "a@b")
        );
        assert_eq!(credentials.weakest, Some(sip_auth::Algorithm::Sha256));
        assert_eq!(credentials.asked_by, Some(Side::Proxy));
        let registering = trunk.registering.unwrap();
        assert_eq!(registering.contact.as_deref(), Some("203.0.113.1:5060"));
        assert_eq!(registering.expires_s, 600);
        assert_eq!(trunk.identity, Identity::Asserted);
        assert_eq!(trunk.numbers.plan.format, NumberFormat::E164NoPlus);
        assert_eq!(trunk.numbers.to.as_deref(), Some("desk"));
        assert!(trunk.trust.by_address && !trunk.trust.secure_only);
    }

    #[test]
    fn members_are_known_by_the_safest_that_is_there() {
        let secure = "[[gateway_group]]\nname = \"p\"\nsecurity = { tls = true }\n\
                      gateways = [{ uri = \"sip:SIP.p.example\" }, { uri = \"sip:192.0.2.9\" }]\n";
        let trust = told(secure, "").trust;
        assert_eq!(trust.identities, ["sip.p.example".into()]);
        assert_eq!(trust.networks.len(), 1);
        assert!(trust.secure_only && !trust.by_address);
        let expecting =
            format!("[[tls.peer]]\nnames = [\"sip.p.example\"]\nexpect = \"p.example\"\n{secure}");
        assert_eq!(told(&expecting, "").trust.identities, ["p.example".into()]);
        assert_eq!(told(secure, "trust = \"none\"\n").trust, Trust::default());
        let trust = told(GROUP, "networks = [\"192.0.2.0/24\"]\n").trust;
        assert!(trust.by_address && trust.networks.len() == 1);
    }

    #[test]
    fn a_route_names_a_trunk_as_it_names_a_group() {
        for key in ["group", "trunk"] {
            let config = parse(&format!(
                "{GROUP}[[trunk]]\ngroup = \"p\"\n[[route]]\nprefix = \"+\"\n{key} = \"p\"\n"
            ))
            .unwrap();
            assert_eq!(config.route[0].group, "p");
        }
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_remedy() {
        for (keys, line, told) in [
            ("password_file = \"x\"\nuser = \"a\"\n", 7, "write realm = "),
            ("realm = \"r\"\n", 7, "write password_file = "),
            (
                "realm = \"r\"\npassword_file = \"x\"\n",
                8,
                "a password needs a user",
            ),
            ("auth_user = \"r\"\n", 7, "drop auth_user"),
            ("algorithm_min = \"MD5\"\n", 7, "drop algorithm_min"),
            ("challenge_status = \"407\"\n", 7, "drop challenge_status"),
            ("challenge_status = \"403\"\n", 7, "did you mean `401`"),
            ("register_s = 60\n", 7, "whom to register"),
            ("register_s = 700000\n", 7, "from 0 to 604800"),
            ("contact = \"a\"\n", 7, "drop contact"),
            ("format = \"national\"\n", 7, "write country_code"),
            ("national_prefix = \"0\"\n", 7, "of which country"),
            ("number = \"030\"\n", 7, "is no number in E.164"),
            ("country_code = \"+49\"\n", 7, "is no prefix"),
            ("user = \"a@b\"\n", 7, "is no user"),
            ("identity = \"p-a-i\"\n", 7, "pai"),
            ("trust = \"certificate\"\n", 7, "security = { tls = true }"),
            ("[[trunk]]\ngroup = \"p\"\n", 8, "stands above"),
            ("[[trunk]]\ngroup = \"q\"\n", 8, "write one of: p"),
        ] {
            let error = parse(&format!("{GROUP}[[trunk]]\ngroup = \"p\"\n{keys}")).unwrap_err();
            assert!(error.contains(told), "{keys}{error}");
            assert!(error.contains(&format!("t.toml:{line}")), "{keys}{error}");
        }
        let error = parse(&format!(
            "domains = [\"p.example\"]\n{GROUP}[[trunk]]\ngroup = \"p\"\ndomain = \"p.example\"\n"
        ))
        .unwrap_err();
        assert!(error.contains("one of our own domains"), "{error}");
    }

    #[test]
    fn an_account_that_anybody_calls_on_is_warned_of() {
        let keys = "user = \"u\"\npassword_file = \"secret\"\nrealm = \"r\"\n";
        for (required, count) in [(true, 0), (false, 1)] {
            let config = parse(&format!(
                "{GROUP}[[trunk]]\ngroup = \"p\"\n{keys}[authentication]\nrequired = {required}\n"
            ));
            let warnings = config.unwrap().warnings();
            let told = "trunk.0: whoever reaches this server calls on this account";
            let warned = warnings.iter().filter(|of| of.starts_with(told));
            assert_eq!(warned.count(), count, "{warnings:?}");
        }
    }

    #[test]
    fn what_it_comes_to_is_told_without_its_password() {
        let config = parse(&format!(
            "mode = \"stateless\"\n{GROUP}[[trunk]]\ngroup = \"p\"\nuser = \"u\"\nidentity = \"pai\"\n\
             register_s = 60\npassword_file = \"secret\"\nrealm = \"r\"\n"
        ))
        .unwrap();
        assert_eq!(
            config.trunks_text(),
            "trunk p: sip:u@sip.p.example is registered for 60 s; challenges of realm \"r\" are answered as u; \
             calls to our users are let in from its members' addresses\n"
        );
        let warnings = config.warnings();
        assert!(warnings.iter().any(|of| of.contains("mode = \"stateful\"")));
        assert!(warnings.iter().any(|of| of.contains("trunk.0.identity")));
    }
}
