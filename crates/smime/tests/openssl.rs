//! OpenSSL reads what is written here, and what OpenSSL writes is read here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{ALICE, KINDS, NOW_UNIX_S, SDP, World, forms, seal};
use smime::make::Kind;
use smime::{OpenError, Opened, Protection, Sealed, Transfer};

/// What is signed and encrypted: the session description with its header.
fn entity() -> Vec<u8> {
    [&b"Content-Type: application/sdp\r\n\r\n"[..], SDP].concat()
}

/// A folder with the texts of a world; `None` where there is no openssl and that may be.
struct Scene {
    folder: PathBuf,
}

impl Scene {
    fn new(name: &str, world: &World) -> Option<Self> {
        if Command::new("openssl").arg("version").output().is_err() {
            let is_allowed = std::env::var_os("SIGNET_MAY_SKIP").is_some_and(|value| value == "1");
            assert!(
                is_allowed,
                "openssl is not installed (`make tools` does it); SIGNET_MAY_SKIP=1 skips such tests"
            );
            eprintln!("skipped: openssl is not installed");
            return None;
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("smime-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let this = Self { folder };
        this.write("root.pem", world.authority.pem());
        for (name, user) in [("alice", &world.alice), ("bob", &world.bob)] {
            this.write(&format!("{name}.pem"), &user.chain);
            this.write(&format!("{name}.key"), &user.key);
        }
        this.write("entity", entity());
        Some(this)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.folder.join(name), bytes).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.join(name)).unwrap()
    }

    /// Runs openssl with these words; what it said where it failed.
    fn try_openssl(&self, words: &str) -> Result<(), String> {
        let output = Command::new("openssl")
            .args(words.split_whitespace())
            .current_dir(&self.folder)
            .output()
            .unwrap();
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    fn openssl(&self, words: &str) {
        self.try_openssl(words)
            .unwrap_or_else(|said| panic!("openssl {words}: {said}"));
    }

    /// Writes a body as a mail, for those who read nothing else.
    fn write_mail(&self, name: &str, sealed: &Sealed) {
        let encoding = sealed.transfer_encoding.unwrap_or("binary");
        let head = format!(
            "MIME-Version: 1.0\r\nContent-Type: {}\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n",
            sealed.content_type
        );
        self.write(name, [head.as_bytes(), &sealed.body].concat());
    }

    /// Opens a mail as Bob.
    fn open_mail(&self, name: &str, world: &World) -> Result<Opened, OpenError> {
        let mail = self.read(name);
        let at = mail
            .windows(4)
            .position(|part| part == b"\r\n\r\n")
            .unwrap();
        let head = std::str::from_utf8(&mail[..at]).unwrap();
        let value = |name: &str| {
            head.lines()
                .find_map(|line| line.strip_prefix(name))
                .map(|value| value.trim().as_bytes())
        };
        let opened = world.recipient().open(
            ALICE,
            value("Content-Type:").unwrap(),
            value("Content-Transfer-Encoding:"),
            &mail[at + 4..],
            NOW_UNIX_S,
        );
        opened.map(|opened| opened.expect("it is protected"))
    }

    /// Opens a DER as Bob.
    fn open_der(&self, name: &str, world: &World) -> Result<Opened, OpenError> {
        let kind = b"application/pkcs7-mime; name=smime.p7m";
        let opened = world
            .recipient()
            .open(ALICE, kind, None, &self.read(name), NOW_UNIX_S);
        opened.map(|opened| opened.expect("it is protected"))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// What openssl needs to decrypt for Bob.
const BOB: &str = "-recip bob.pem -inkey bob.key";
const VERIFY: &str = "-verify -CAfile root.pem";

#[test]
fn openssl_reads_every_form() {
    for kind in KINDS {
        let world = World::new(kind);
        let Some(place) = Scene::new(&format!("reads-{}", kind.name()), &world) else {
            return;
        };
        for (name, sender) in forms(&world) {
            let sealed = seal(&sender);
            let protection = sender.protection.unwrap();
            match (protection, sender.transfer) {
                (Protection::Sign, Transfer::Base64) => {
                    place.write_mail("mail", &sealed);
                    for program in ["cms", "smime"] {
                        place.openssl(&format!("{program} {VERIFY} -in mail -out out"));
                        assert_eq!(place.read("out"), entity(), "{program} {name}");
                    }
                }
                (Protection::Encrypt, Transfer::Base64) => {
                    place.write_mail("mail", &sealed);
                    place.openssl(&format!("cms -decrypt {BOB} -in mail -out out"));
                    assert_eq!(place.read("out"), entity(), "{name}");
                }
                (Protection::Encrypt, Transfer::Binary) => {
                    place.write("body", &sealed.body);
                    place.openssl(&format!("cms -decrypt {BOB} -inform DER -in body -out out"));
                    assert_eq!(place.read("out"), entity(), "{name}");
                    // And nobody else reads it.
                    let wrong = "cms -decrypt -recip alice.pem -inkey alice.key -inform DER -in body -out out";
                    assert!(place.try_openssl(wrong).is_err(), "{name}");
                }
                (Protection::EncryptThenSign, Transfer::Base64) => {
                    place.write_mail("mail", &sealed);
                    place.openssl(&format!("cms {VERIFY} -in mail -out inner"));
                    place.openssl(&format!("cms -decrypt {BOB} -in inner -out out"));
                    assert_eq!(place.read("out"), entity(), "{name}");
                }
                (Protection::SignThenEncrypt, Transfer::Base64) => {
                    place.write_mail("mail", &sealed);
                    place.openssl(&format!("cms -decrypt {BOB} -in mail -out inner"));
                    place.openssl(&format!("cms {VERIFY} -in inner -out out"));
                    assert_eq!(place.read("out"), entity(), "{name}");
                }
                // openssl's mails know no binary; its readers of DER do.
                (Protection::Sign | Protection::EncryptThenSign, Transfer::Binary) => {
                    let (content, signature) = parts(&sealed);
                    place.write("content", content);
                    place.write("signature", signature);
                    place.openssl(&format!(
                        "cms {VERIFY} -binary -inform DER -in signature -content content -out out"
                    ));
                    assert_eq!(place.read("out"), content, "{name}");
                    // A changed content is refused by openssl too.
                    let mut changed = content.to_vec();
                    changed[10] ^= 1;
                    place.write("content", changed);
                    let wrong = format!(
                        "cms {VERIFY} -binary -inform DER -in signature -content content -out out"
                    );
                    assert!(place.try_openssl(&wrong).is_err(), "{name}");
                }
                (Protection::SignThenEncrypt, Transfer::Binary) => {
                    place.write("body", &sealed.body);
                    place.openssl(&format!(
                        "cms -decrypt {BOB} -inform DER -in body -out inner"
                    ));
                    let inner = place.read("inner");
                    assert!(
                        inner.starts_with(b"Content-Type: multipart/signed;"),
                        "{name}"
                    );
                }
            }
        }
    }
}

/// The two parts of a signed body: what is signed, and the bytes of the signature.
fn parts(sealed: &Sealed) -> (&[u8], &[u8]) {
    let boundary = sealed.content_type.split("boundary=").nth(1).unwrap();
    let delimiter = format!("--{boundary}");
    let find = |from: usize| {
        let found = sealed.body[from..]
            .windows(delimiter.len())
            .position(|part| part == delimiter.as_bytes());
        from + found.unwrap()
    };
    let first = find(0) + delimiter.len() + 2;
    let second = find(first);
    let third = find(second + 1);
    let part = &sealed.body[second + delimiter.len() + 2..third - 2];
    let head = part.windows(4).position(|end| end == b"\r\n\r\n").unwrap();
    (&sealed.body[first..second - 2], &part[head + 4..])
}

#[test]
fn what_openssl_signs_is_read() {
    for kind in KINDS {
        let world = World::new(kind);
        let Some(place) = Scene::new(&format!("signs-{}", kind.name()), &world) else {
            return;
        };
        let by = "-signer alice.pem -inkey alice.key -in entity";
        for more in [
            "",
            "-md sha512",
            "-keyid",
            "-certfile root.pem",
            "-nosmimecap",
        ] {
            for program in ["cms", "smime"] {
                if program == "smime" && ["-keyid", "-nosmimecap"].contains(&more) {
                    continue;
                }
                place.openssl(&format!(
                    "{program} -sign {by} -binary -crlfeol {more} -out mail"
                ));
                let opened = place.open_mail("mail", &world);
                let opened = opened.unwrap_or_else(|e| panic!("{program} {more}: {e}"));
                assert_eq!(opened.body, SDP, "{program} {more}");
                assert!(opened.signer.is_some_and(|signer| signer.speaks_for(ALICE)));
            }
        }
        // With the content inside, and of indefinite length.
        for more in ["", "-stream"] {
            place.openssl(&format!(
                "cms -sign {by} -binary -nodetach -outform DER {more} -out body"
            ));
            assert_eq!(place.open_der("body", &world).unwrap().body, SDP, "{more}");
        }
        let refused = |more: &str, of: &World| {
            place.openssl(&format!("cms -sign {by} -binary -crlfeol {more} -out mail"));
            place.open_mail("mail", of).unwrap_err()
        };
        assert_eq!(refused("-nocerts", &world), OpenError::NoCertificate);
        let told = refused("-noattr", &world);
        assert!(matches!(told, OpenError::Unsupported(_)), "{told}");
        let told = refused("-md sha1", &world);
        assert!(matches!(told, OpenError::Unsupported(_)), "{told}");
        let told = refused("-signer bob.pem -inkey bob.key", &world);
        assert!(matches!(told, OpenError::Unsupported(_)), "{told}");
        assert_eq!(refused("", &World::new(kind)), OpenError::Untrusted);
        if kind == Kind::Rsa2048 {
            let told = refused("-keyopt rsa_padding_mode:pss", &world);
            assert!(matches!(told, OpenError::Unsupported(_)), "{told}");
        }
    }
}

#[test]
fn what_openssl_encrypts_is_read() {
    for kind in KINDS {
        let world = World::new(kind);
        let Some(place) = Scene::new(&format!("encrypts-{}", kind.name()), &world) else {
            return;
        };
        let sha256 = match kind {
            Kind::P256 => "-keyopt ecdh_kdf_md:sha256",
            Kind::Rsa2048 => "",
        };
        for cipher in ["aes-128-cbc", "aes-256-cbc", "aes-128-gcm", "aes-256-gcm"] {
            for more in ["", "-stream", "-keyid", sha256] {
                place.openssl(&format!(
                    "cms -encrypt -{cipher} -binary -in entity -outform DER -out body -recip bob.pem {more}"
                ));
                let opened = place.open_der("body", &world);
                let opened = opened.unwrap_or_else(|e| panic!("{cipher} {more}: {e}"));
                assert_eq!(opened.body, SDP, "{cipher} {more}");
                assert!(opened.was_encrypted && opened.signer.is_none());
            }
            // For two, of whom Bob is the second; and as a mail.
            place.openssl(&format!(
                "cms -encrypt -{cipher} -binary -in entity -crlfeol -out mail -recip alice.pem -recip bob.pem"
            ));
            assert_eq!(
                place.open_mail("mail", &world).unwrap().body,
                SDP,
                "{cipher}"
            );
            place.openssl(&format!(
                "cms -encrypt -{cipher} -binary -in entity -outform DER -out body -recip alice.pem"
            ));
            assert_eq!(place.open_der("body", &world), Err(OpenError::NotForUs));
        }
        place
            .openssl("cms -encrypt -des3 -binary -in entity -outform DER -out body -recip bob.pem");
        let told = place.open_der("body", &world).unwrap_err();
        assert!(matches!(told, OpenError::Unsupported(_)), "{told}");
    }
}

#[test]
fn what_openssl_signs_and_encrypts_is_read_in_either_order() {
    for kind in KINDS {
        let world = World::new(kind);
        let Some(place) = Scene::new(&format!("both-{}", kind.name()), &world) else {
            return;
        };
        let sign = "cms -sign -signer alice.pem -inkey alice.key -binary -crlfeol";
        let encrypt = "cms -encrypt -aes-128-cbc -binary -crlfeol";
        place.openssl(&format!("{sign} -in entity -out inner"));
        place.openssl(&format!("{encrypt} -in inner -out mail -recip bob.pem"));
        let opened = place.open_mail("mail", &world).unwrap();
        assert_eq!(opened.body, SDP);
        assert!(opened.was_encrypted && opened.signer.is_some());
        place.openssl(&format!("{encrypt} -in entity -out inner -recip bob.pem"));
        place.openssl(&format!("{sign} -in inner -out mail"));
        let opened = place.open_mail("mail", &world).unwrap();
        assert_eq!(opened.body, SDP);
        assert!(opened.was_encrypted && opened.signer.is_some());
    }
}
