//! Bencoding, as the ng protocol has it: numbers, strings of bytes, lists and dictionaries. The
//! keys of a dictionary may come in any order, as rtpengine writes them.
//!
//! The reader is strict: of each value there is one spelling, a key comes once, nothing may
//! follow. What was read and is written again is the same text. It is bounded too, in depth and
//! in number, so that no text costs more memory than some hundred times its length.

/// How deep values may be nested.
pub const DEPTH_MAX: usize = 16;
/// Values in a text, all together.
pub const VALUES_MAX: usize = 4_096;
/// Keys of one dictionary.
pub const KEYS_MAX: usize = 256;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'t> {
    /// A number.
    Integer(i64),
    /// A string of bytes.
    Bytes(&'t [u8]),
    /// Values in order.
    List(Vec<Value<'t>>),
    /// Values by their keys.
    Dictionary(Dictionary<'t>),
}

impl<'t> Value<'t> {
    /// Its bytes, if it is a string.
    pub fn bytes(&self) -> Option<&'t [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The dictionary, if it is one.
    pub fn dictionary(&self) -> Option<&Dictionary<'t>> {
        match self {
            Self::Dictionary(dictionary) => Some(dictionary),
            _ => None,
        }
    }
}

/// Values by their keys, in the order of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dictionary<'t>(Vec<(&'t [u8], Value<'t>)>);

impl<'t> Dictionary<'t> {
    /// The value of that key.
    pub fn get(&self, key: &str) -> Option<&Value<'t>> {
        let mut entries = self.0.iter();
        let found = entries.find(|(own, _)| *own == key.as_bytes());
        found.map(|(_, value)| value)
    }

    /// The string of that key.
    pub fn bytes(&self, key: &str) -> Option<&'t [u8]> {
        self.get(key)?.bytes()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&'t [u8], &Value<'t>)> {
        self.0.iter().map(|(key, value)| (*key, value))
    }
}

/// Why a text cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It ends too soon.
    Ends,
    /// Something begins that is no value.
    NoValue,
    /// A number that is none, is too large, or has another spelling.
    Number,
    /// A key that is no string.
    NoKey,
    /// A key that was there before.
    KeyTwice,
    /// More than [`DEPTH_MAX`], [`VALUES_MAX`] or [`KEYS_MAX`].
    TooMuch,
    /// Something follows the value.
    Follows,
}

/// Reads a text that is one value.
pub fn read(text: &[u8]) -> Result<Value<'_>, Fault> {
    let mut reader = Reader {
        rest: text,
        values: 0,
    };
    let value = reader.value(0)?;
    match reader.rest.is_empty() {
        true => Ok(value),
        false => Err(Fault::Follows),
    }
}

struct Reader<'t> {
    rest: &'t [u8],
    values: usize,
}

impl<'t> Reader<'t> {
    fn value(&mut self, depth: usize) -> Result<Value<'t>, Fault> {
        self.values += 1;
        if self.values > VALUES_MAX || depth > DEPTH_MAX {
            return Err(Fault::TooMuch);
        }
        match self.rest.first() {
            Some(b'0'..=b'9') => self.bytes().map(Value::Bytes),
            Some(b'i') => {
                self.skip();
                self.number(b'e').map(Value::Integer)
            }
            Some(b'l') => {
                self.skip();
                let mut list = Vec::new();
                while !self.is_over()? {
                    list.push(self.value(depth + 1)?);
                }
                Ok(Value::List(list))
            }
            Some(b'd') => {
                self.skip();
                self.entries(depth).map(Value::Dictionary)
            }
            Some(_) => Err(Fault::NoValue),
            None => Err(Fault::Ends),
        }
    }

    fn entries(&mut self, depth: usize) -> Result<Dictionary<'t>, Fault> {
        let mut entries: Vec<(&[u8], Value<'_>)> = Vec::new();
        while !self.is_over()? {
            if entries.len() >= KEYS_MAX {
                return Err(Fault::TooMuch);
            }
            if !self.rest.first().is_some_and(u8::is_ascii_digit) {
                return Err(Fault::NoKey);
            }
            let key = self.bytes()?;
            if entries.iter().any(|(before, _)| *before == key) {
                return Err(Fault::KeyTwice);
            }
            let value = self.value(depth + 1)?;
            entries.push((key, value));
        }
        Ok(Dictionary(entries))
    }

    /// Whether a list or a dictionary ends here; its end is taken then.
    fn is_over(&mut self) -> Result<bool, Fault> {
        match self.rest.first() {
            Some(b'e') => {
                self.skip();
                Ok(true)
            }
            Some(_) => Ok(false),
            None => Err(Fault::Ends),
        }
    }

    fn bytes(&mut self) -> Result<&'t [u8], Fault> {
        let length = usize::try_from(self.number(b':')?).map_err(|_| Fault::Number)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Fault::Ends)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A number and what ends it.
    fn number(&mut self, end: u8) -> Result<i64, Fault> {
        /// A sign, and the digits of the largest.
        const LENGTH_MAX: usize = 20;
        let front = self.rest.get(..=LENGTH_MAX).unwrap_or(self.rest);
        let Some(length) = front.iter().position(|byte| *byte == end) else {
            return Err(match front.len() > LENGTH_MAX {
                true => Fault::Number,
                false => Fault::Ends,
            });
        };
        let (text, rest) = self.rest.split_at(length);
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        let has_one_spelling = match digits {
            [b'0'] => text.len() == 1,
            [b'1'..=b'9', ..] => digits.iter().all(u8::is_ascii_digit),
            _ => false,
        };
        let number = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        self.rest = rest.get(1..).unwrap_or_default();
        number.filter(|_| has_one_spelling).ok_or(Fault::Number)
    }

    fn skip(&mut self) {
        self.rest = self.rest.get(1..).unwrap_or_default();
    }
}

/// Writes values behind each other.
pub struct Writer<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> Writer<'o> {
    /// Appends to `out`.
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out }
    }

    /// A string of bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out
            .extend_from_slice(bytes.len().to_string().as_bytes());
        self.out.push(b':');
        self.out.extend_from_slice(bytes);
    }

    /// A number.
    pub fn integer(&mut self, number: i64) {
        self.out.push(b'i');
        self.out.extend_from_slice(number.to_string().as_bytes());
        self.out.push(b'e');
    }

    /// A list of what `write` writes.
    pub fn list(&mut self, write: impl FnOnce(&mut Self)) {
        self.out.push(b'l');
        write(self);
        self.out.push(b'e');
    }

    /// A dictionary of what `write` writes: keys and values by turns.
    pub fn dictionary(&mut self, write: impl FnOnce(&mut Self)) {
        self.out.push(b'd');
        write(self);
        self.out.push(b'e');
    }

    /// A key and its string.
    pub fn entry(&mut self, key: &str, value: &[u8]) {
        self.bytes(key.as_bytes());
        self.bytes(value);
    }

    /// A key and its list of strings.
    pub fn entries<'e>(&mut self, key: &str, values: impl IntoIterator<Item = &'e str>) {
        self.bytes(key.as_bytes());
        self.list(|list| {
            for value in values {
                list.bytes(value.as_bytes());
            }
        });
    }

    /// A value that was read.
    pub fn value(&mut self, value: &Value<'_>) {
        match value {
            Value::Integer(number) => self.integer(*number),
            Value::Bytes(bytes) => self.bytes(bytes),
            Value::List(values) => self.list(|list| {
                for value in values {
                    list.value(value);
                }
            }),
            Value::Dictionary(entries) => self.dictionary(|dictionary| {
                for (key, value) in entries.iter() {
                    dictionary.bytes(key);
                    dictionary.value(value);
                }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rtpengine_says_is_read() {
        let text = b"d6:result2:ok3:sdp5:v=0\r\n4:tagsd0:d7:createdi-1eeee";
        let value = read(text).unwrap();
        let reply = value.dictionary().unwrap();
        assert_eq!(reply.bytes("result"), Some(b"ok".as_slice()));
        assert_eq!(reply.bytes("sdp"), Some(b"v=0\r\n".as_slice()));
        assert_eq!(reply.bytes("tags"), None, "it is no string");
        assert_eq!(reply.get("none"), None);
        let tag = reply.get("tags").and_then(Value::dictionary);
        let tag = tag.and_then(|tags| tags.get("")?.dictionary());
        let created = tag.and_then(|tag| tag.get("created"));
        assert_eq!(created, Some(&Value::Integer(-1)));
        let mut again = Vec::new();
        Writer::new(&mut again).value(&value);
        assert_eq!(again, text);
    }

    #[test]
    fn there_is_one_spelling_and_nothing_follows() {
        for (text, fault) in [
            ("", Fault::Ends),
            ("i", Fault::Ends),
            ("i1", Fault::Ends),
            ("4:abc", Fault::Ends),
            ("l", Fault::Ends),
            ("li1e", Fault::Ends),
            ("d1:a", Fault::Ends),
            ("12", Fault::Ends),
            ("x", Fault::NoValue),
            ("e", Fault::NoValue),
            ("lxe", Fault::NoValue),
            ("d1:ae", Fault::NoValue),
            ("ie", Fault::Number),
            ("i-e", Fault::Number),
            ("i-0e", Fault::Number),
            ("i00e", Fault::Number),
            ("i01e", Fault::Number),
            ("i-01e", Fault::Number),
            ("i+1e", Fault::Number),
            ("i 1e", Fault::Number),
            ("i1.5e", Fault::Number),
            ("i9223372036854775808e", Fault::Number),
            ("i999999999999999999999999999e", Fault::Number),
            ("01:a", Fault::Number),
            ("99999999999999999999999999:a", Fault::Number),
            ("18446744073709551616:a", Fault::Number),
            ("9223372036854775807:a", Fault::Ends),
            ("di1e1:ae", Fault::NoKey),
            ("dle1:ae", Fault::NoKey),
            ("d-1:a1:be", Fault::NoKey),
            ("d1:ai1e1:ai2ee", Fault::KeyTwice),
            ("i1ei2e", Fault::Follows),
            ("i1e\n", Fault::Follows),
        ] {
            assert_eq!(read(text.as_bytes()), Err(fault), "{text}");
        }
        for good in [
            "i0e",
            "i-9223372036854775808e",
            "i9223372036854775807e",
            "0:",
            "le",
            "de",
            "d0:0:e",
            "ld1:bi1e1:ai2eei3ee",
        ] {
            let value = read(good.as_bytes()).unwrap();
            let mut again = Vec::new();
            Writer::new(&mut again).value(&value);
            assert_eq!(again, good.as_bytes());
        }
    }

    #[test]
    fn depth_and_number_are_bounded() {
        let deep = |depth: usize| ["l".repeat(depth), "e".repeat(depth)].concat();
        assert!(read(deep(DEPTH_MAX + 1).as_bytes()).is_ok());
        for depth in [DEPTH_MAX + 2, 1_000_000] {
            assert_eq!(read(deep(depth).as_bytes()), Err(Fault::TooMuch));
        }
        let long = |values: usize| ["l", &"i1e".repeat(values), "e"].concat();
        assert!(read(long(VALUES_MAX - 1).as_bytes()).is_ok());
        assert_eq!(read(long(VALUES_MAX).as_bytes()), Err(Fault::TooMuch));
        let wide = |keys: usize| {
            let keys = (0..keys).map(|key| format!("4:{key:04}i1e"));
            ["d".to_owned(), keys.collect(), "e".to_owned()].concat()
        };
        assert!(read(wide(KEYS_MAX).as_bytes()).is_ok());
        assert_eq!(read(wide(KEYS_MAX + 1).as_bytes()), Err(Fault::TooMuch));
    }

    #[test]
    fn every_prefix_of_a_text_has_a_fault_and_no_panic() {
        let text = b"d6:resultl2:oki-12ee3:sdp5:v=0\r\ne";
        for end in 0..text.len() {
            assert!(read(&text[..end]).is_err(), "{end}");
        }
        for at in 0..text.len() {
            let mut changed = text.to_vec();
            for byte in 0..=255 {
                changed[at] = byte;
                let _ = read(&changed);
            }
        }
    }
}
