//! Actions on variables: what is reckoned, compared and changed.

use crate::calls::call::Call;
use crate::calls::{Core, Outputs};
use crate::program::{Arithmetic, Check, Compare, Operand, TextOperand, VarRef};
use crate::stats::Counter;
use crate::value::Value;

use super::ActedOne;

impl Core {
    /// Reckons with a variable and another number.
    pub(super) fn reckon(
        &mut self,
        call: &mut Call,
        how: Arithmetic,
        to: VarRef,
        operand: Operand,
        out: &mut Outputs,
    ) {
        let right = self.operand(call, operand);
        let left = self.scopes(call).get(to).number();
        let result = match how {
            Arithmetic::Assign => right,
            Arithmetic::Add => left + right,
            Arithmetic::Subtract => left - right,
            Arithmetic::Multiply => left * right,
            Arithmetic::Divide if right == 0.0 => {
                self.warn(
                    format!(
                        "call {}: a division by zero left the variable as it was",
                        call.number
                    ),
                    out,
                );
                left
            }
            Arithmetic::Divide => left / right,
        };
        self.scopes(call).set(to, Value::Number(result));
    }

    /// Makes a number of a text.
    pub(super) fn make_double(
        &mut self,
        call: &mut Call,
        to: VarRef,
        from: VarRef,
        out: &mut Outputs,
    ) {
        let mut scopes = self.scopes(call);
        match scopes.get(from).read_number() {
            Some(number) => scopes.set(to, Value::Number(number)),
            None => {
                self.warn("Invalid double conversion".to_owned(), out);
            }
        }
    }

    /// Compares numbers.
    pub(super) fn test(
        &mut self,
        call: &mut Call,
        to: Option<VarRef>,
        left: VarRef,
        compare: Compare,
        right: Operand,
        check: Check,
    ) -> ActedOne {
        let right = self.operand(call, right);
        let mut scopes = self.scopes(call);
        let holds = compare.holds(scopes.get(left).number(), right);
        match check {
            Check::MustBe if !holds => return ActedOne::Fails(Counter::TestDoesntMatch),
            Check::MustNotBe if holds => return ActedOne::Fails(Counter::TestShouldntMatch),
            _ => {}
        }
        // As SIPp: only an outcome with which nothing is wrong is kept.
        if let Some(to) = to {
            scopes.set(to, Value::Bool(holds));
        }
        ActedOne::Done
    }

    /// Compares texts.
    pub(super) fn strcmp(
        &mut self,
        call: &mut Call,
        to: Option<VarRef>,
        left: VarRef,
        right: &TextOperand,
        check: Check,
    ) -> ActedOne {
        let difference = self.compare(call, left, right);
        match check {
            Check::MustBe if difference != 0 => {
                return ActedOne::Fails(Counter::StrcmpDoesntMatch);
            }
            Check::MustNotBe if difference == 0 => {
                return ActedOne::Fails(Counter::StrcmpShouldntMatch);
            }
            _ => {}
        }
        if let Some(to) = to {
            self.scopes(call)
                .set(to, Value::Number(f64::from(difference)));
        }
        ActedOne::Done
    }

    pub(super) fn operand(&mut self, call: &mut Call, operand: Operand) -> f64 {
        match operand {
            Operand::Number(number) => number,
            Operand::Variable(variable) => self.scopes(call).get(variable).number(),
        }
    }

    /// As C's strcmp: the difference of the first bytes that differ.
    fn compare(&mut self, call: &mut Call, left: VarRef, right: &TextOperand) -> i32 {
        let scopes = self.scopes(call);
        let a = scopes.get(left).string();
        let b = match right {
            TextOperand::Text(text) => text.as_slice(),
            TextOperand::Variable(variable) => scopes.get(*variable).string(),
        };
        let byte = |text: &[u8], at: usize| text.get(at).map_or(0, |byte| i32::from(*byte));
        (0..a.len().max(b.len()))
            .map(|at| byte(a, at) - byte(b, at))
            .find(|difference| *difference != 0)
            .unwrap_or(0)
    }

    /// Changes the text of a variable; what is none becomes one.
    pub(super) fn change(
        &mut self,
        call: &mut Call,
        variable: VarRef,
        how: impl Fn(&[u8]) -> Vec<u8>,
    ) {
        if let Some(slot) = self.scopes(call).slot(variable) {
            *slot = Value::text(how(slot.string()));
        }
    }
}

/// RFC 3986 2.1.
pub(super) fn url_encode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    out
}

pub(super) fn url_decode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        let decoded = match (byte, behind) {
            (b'%', [high, low, ..]) => std::str::from_utf8(&[*high, *low])
                .ok()
                .and_then(|digits| u8::from_str_radix(digits, 16).ok()),
            _ => None,
        };
        match decoded {
            Some(decoded) => {
                out.push(decoded);
                rest = behind.get(2..).unwrap_or_default();
            }
            None => {
                out.push(byte);
                rest = behind;
            }
        }
    }
    out
}
