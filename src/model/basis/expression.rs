//! Functions of the state as text: numbers, variables, + − * / ^, brackets, and functions of one argument.
//!
//! A variable is written by its name, or by its name in braces if that is no plain word: `{gene a}`. `^` binds tighter
//! than a sign, as in print: −x^2 is −(x²).

use crate::data::Standardization;
use crate::numeric::simd::dispatch;
use crate::{Error, Result, Scalar};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Brackets within brackets at most: what is read by recursion must end before the stack does.
const DEEPEST: usize = 100;
/// Letters of a text at most: what is evaluated at every row of the data should end some time.
const LONGEST: usize = 10_000;

/// A function of the state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expression {
    text: String,
    root: Node,
    variables: BTreeSet<usize>,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Number(f64),
    Variable(usize),
    /// A variable of which the state has the standard units: scale · x_j + mean.
    Restored {
        variable: usize,
        mean: f64,
        scale: f64,
    },
    /// The variable whose noise is spoken of.
    Own,
    /// The same, of which the state has the standard units.
    OwnRestored(Arc<Standardization>),
    Minus(Box<Node>),
    Call(Function, Box<Node>),
    /// From left to right, in one node: a long sum is no deep one, so that recursion stays shallow.
    Sum(Box<Node>, Vec<(Term, Node)>),
    /// The same for products.
    Product(Box<Node>, Vec<(Factor, Node)>),
    Power(Box<Node>, i32),
    GeneralPower(Box<Node>, Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Term {
    Plus,
    Minus,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Factor {
    Times,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Function {
    Exp,
    Log,
    Sqrt,
    Abs,
    Sin,
    Cos,
    Tanh,
    Sigmoid,
}

const FUNCTIONS: [(&str, Function); 8] = [
    ("exp", Function::Exp),
    ("log", Function::Log),
    ("sqrt", Function::Sqrt),
    ("abs", Function::Abs),
    ("sin", Function::Sin),
    ("cos", Function::Cos),
    ("tanh", Function::Tanh),
    ("sigmoid", Function::Sigmoid),
];

/// The name of the variable itself, where that means something.
pub(super) const OWN: &str = "self";

/// Variables by name.
pub(crate) struct Variables<'a> {
    names: &'a [String],
    places: HashMap<&'a str, usize>,
}

impl<'a> Variables<'a> {
    pub(crate) fn new(names: &'a [String]) -> Self {
        // Of two with the same name the first is meant.
        let places = names.iter().enumerate().rev().map(|(j, name)| (name.as_str(), j)).collect();
        Variables { names, places }
    }
}

impl Expression {
    /// Reads a text with these variables. `own` says whether [`OWN`] is one too.
    pub(crate) fn parse(text: &str, names: &Variables<'_>, own: bool) -> Result<Self> {
        if text.len() > LONGEST {
            return Err(Error::invalid(format!(
                "found an expression of {} letters, expected at most {LONGEST}",
                text.len()
            )));
        }
        let mut parser = Parser { text, at: 0, names, own, depth: 0 };
        let root = parser.sum()?;
        parser.skip_blanks();
        if parser.at < text.len() {
            return Err(parser.fail("an operator or the end"));
        }
        let mut variables = BTreeSet::new();
        root.collect(&mut variables);
        Ok(Expression { text: text.trim().to_owned(), root, variables })
    }

    /// As it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The value at x; `own` is the variable that [`OWN`] stands for.
    pub(crate) fn at(&self, x: &[f64], own: usize) -> f64 {
        self.root.at(x, own)
    }

    /// The values at many points; `x` has the entries of a variable contiguous, as many as `out` has. `pool` is space.
    pub(crate) fn fill(&self, x: &[f64], own: usize, out: &mut [f64], pool: &mut Vec<Vec<f64>>) {
        self.root.fill(x, own, out, pool);
    }

    /// The variables it depends on, without [`OWN`].
    pub(crate) fn variables(&self) -> &BTreeSet<usize> {
        &self.variables
    }

    /// The same function of a state in standard units: what it says is said of the data's own.
    pub(crate) fn of_standard(&self, units: &Arc<Standardization>) -> Expression {
        Expression { root: self.root.of_standard(units), ..self.clone() }
    }

    /// Whether it is the number 1.
    pub(crate) fn is_one(&self) -> bool {
        self.root == Node::Number(1.0)
    }
}

/// A variable's name as it is written in an expression.
pub(super) fn written(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(is_word)
        && name != OWN
        && FUNCTIONS.iter().all(|(known, _)| *known != name);
    if plain { name.to_owned() } else { format!("{{{name}}}") }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

impl Node {
    /// The value at one point.
    fn at(&self, x: &[f64], own: usize) -> f64 {
        let mut out = [0.0];
        self.fill(x, own, &mut out, &mut Vec::new());
        out[0]
    }

    fn fill(&self, x: &[f64], own: usize, out: &mut [f64], pool: &mut Vec<Vec<f64>>) {
        let count = out.len();
        let column = |j: usize| &x[j * count..(j + 1) * count];
        // The compiler vectorises each loop alone.
        macro_rules! each {
            ($a:expr, $value:ident => $new:expr) => {{
                $a.fill(x, own, out, pool);
                dispatch(
                    #[inline(always)]
                    || {
                        out.iter_mut().for_each(|out| {
                            *out = {
                                let $value = *out;
                                $new
                            }
                        })
                    },
                );
            }};
        }
        // What is in `out`, with another node's values.
        macro_rules! with {
            ($b:expr, $left:ident, $right:ident => $new:expr) => {{
                let mut right = pool.pop().unwrap_or_default();
                right.resize(count, 0.0);
                $b.fill(x, own, &mut right, pool);
                dispatch(
                    #[inline(always)]
                    || {
                        for (out, right) in out.iter_mut().zip(&right) {
                            let ($left, $right) = (*out, *right);
                            *out = $new;
                        }
                    },
                );
                pool.push(right);
            }};
        }
        match self {
            Node::Number(value) => out.fill(*value),
            Node::Variable(j) => out.copy_from_slice(column(*j)),
            Node::Own => out.copy_from_slice(column(own)),
            Node::Restored { variable, mean, scale } => {
                let restored = column(*variable).iter().map(|z| scale * z + mean);
                out.iter_mut().zip(restored).for_each(|(out, x)| *out = x);
            }
            Node::OwnRestored(units) => {
                let restored = column(own).iter().map(|z| units.scale[own] * z + units.mean[own]);
                out.iter_mut().zip(restored).for_each(|(out, x)| *out = x);
            }
            Node::Minus(a) => each!(a, z => -z),
            Node::Call(Function::Exp, a) => each!(a, z => Scalar::exp(z)),
            Node::Call(function, a) => each!(a, z => function.of(z)),
            Node::Power(a, 2) => each!(a, z => z * z),
            Node::Power(a, 3) => each!(a, z => z * z * z),
            Node::Power(a, exponent) => each!(a, z => z.powi(*exponent)),
            Node::Sum(a, terms) => {
                a.fill(x, own, out, pool);
                for (sign, b) in terms {
                    match sign {
                        Term::Plus => with!(b, left, right => left + right),
                        Term::Minus => with!(b, left, right => left - right),
                    }
                }
            }
            Node::Product(a, factors) => {
                a.fill(x, own, out, pool);
                for (sign, b) in factors {
                    match sign {
                        Factor::Times => with!(b, left, right => left * right),
                        Factor::Over => with!(b, left, right => left / right),
                    }
                }
            }
            Node::GeneralPower(a, b) => {
                a.fill(x, own, out, pool);
                with!(b, left, right => left.powf(right));
            }
        }
    }

    fn of_standard(&self, units: &Arc<Standardization>) -> Node {
        let of = |node: &Node| Box::new(node.of_standard(units));
        match self {
            Node::Number(_) | Node::Restored { .. } | Node::OwnRestored(_) => self.clone(),
            Node::Variable(j) => {
                Node::Restored { variable: *j, mean: units.mean[*j], scale: units.scale[*j] }
            }
            Node::Own => Node::OwnRestored(units.clone()),
            Node::Minus(a) => Node::Minus(of(a)),
            Node::Call(function, a) => Node::Call(*function, of(a)),
            Node::Power(a, exponent) => Node::Power(of(a), *exponent),
            Node::Sum(a, terms) => {
                let terms = terms.iter().map(|(term, b)| (*term, b.of_standard(units)));
                Node::Sum(of(a), terms.collect())
            }
            Node::Product(a, factors) => {
                let factors = factors.iter().map(|(factor, b)| (*factor, b.of_standard(units)));
                Node::Product(of(a), factors.collect())
            }
            Node::GeneralPower(a, b) => Node::GeneralPower(of(a), of(b)),
        }
    }

    fn collect(&self, all: &mut BTreeSet<usize>) {
        match self {
            Node::Number(_) | Node::Own | Node::OwnRestored(_) => {}
            Node::Variable(j) | Node::Restored { variable: j, .. } => {
                all.insert(*j);
            }
            Node::Minus(a) | Node::Call(_, a) | Node::Power(a, _) => a.collect(all),
            Node::Sum(a, terms) => {
                a.collect(all);
                terms.iter().for_each(|(_, b)| b.collect(all));
            }
            Node::Product(a, factors) => {
                a.collect(all);
                factors.iter().for_each(|(_, b)| b.collect(all));
            }
            Node::GeneralPower(a, b) => {
                a.collect(all);
                b.collect(all);
            }
        }
    }
}

impl Function {
    fn of(self, z: f64) -> f64 {
        match self {
            Function::Exp => Scalar::exp(z),
            Function::Log => z.ln(),
            Function::Sqrt => z.sqrt(),
            Function::Abs => z.abs(),
            Function::Sin => z.sin(),
            Function::Cos => z.cos(),
            Function::Tanh => z.tanh(),
            Function::Sigmoid => 1.0 / (1.0 + (-z).exp()),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    names: &'a Variables<'a>,
    own: bool,
    depth: usize,
}

impl Parser<'_> {
    // Apart, so that a sentence takes no room on the stack of what recurses.
    #[cold]
    #[inline(never)]
    fn fail(&self, expected: &str) -> Error {
        let found = match self.text[self.at..].chars().next() {
            Some(c) => format!("'{c}'"),
            None => "the end".into(),
        };
        let place = self.text[..self.at].chars().count() + 1;
        Error::invalid(format!(
            "'{:.200}': found {found} at place {place}, expected {expected}",
            self.text.trim()
        ))
    }

    fn skip_blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Takes one of these signs, if it is next.
    fn sign(&mut self, signs: &str) -> Option<char> {
        self.skip_blanks();
        let next = self.text[self.at..].chars().next().filter(|c| signs.contains(*c))?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn sum(&mut self) -> Result<Node> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.fail(&format!("at most {DEEPEST} brackets within each other")));
        }
        let first = self.product()?;
        let mut terms = Vec::new();
        while let Some(sign) = self.sign("+-−") {
            terms.push((if sign == '+' { Term::Plus } else { Term::Minus }, self.product()?));
        }
        self.depth -= 1;
        Ok(if terms.is_empty() { first } else { Node::Sum(Box::new(first), terms) })
    }

    fn product(&mut self) -> Result<Node> {
        let first = self.signed()?;
        let mut factors = Vec::new();
        while let Some(sign) = self.sign("*/·") {
            factors.push((if sign == '/' { Factor::Over } else { Factor::Times }, self.signed()?));
        }
        Ok(if factors.is_empty() { first } else { Node::Product(Box::new(first), factors) })
    }

    fn signed(&mut self) -> Result<Node> {
        let mut negative = false;
        while let Some(sign) = self.sign("+-−") {
            negative ^= sign != '+';
        }
        let node = self.power()?;
        Ok(if negative { Node::Minus(Box::new(node)) } else { node })
    }

    fn power(&mut self) -> Result<Node> {
        let base = self.atom()?;
        if self.sign("^").is_none() {
            return Ok(base);
        }
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.fail(&format!("at most {DEEPEST} powers of powers")));
        }
        // To the right: x^2^3 is x^(2^3).
        let exponent = self.signed()?;
        self.depth -= 1;
        let whole = |value: f64| value.fract() == 0.0 && value.abs() <= 64.0;
        Ok(match &exponent {
            Node::Number(value) if whole(*value) => Node::Power(Box::new(base), *value as i32),
            Node::Minus(inner) if matches!(**inner, Node::Number(value) if whole(value)) => {
                Node::Power(Box::new(base), exponent.at(&[], 0) as i32)
            }
            _ => Node::GeneralPower(Box::new(base), Box::new(exponent)),
        })
    }

    fn atom(&mut self) -> Result<Node> {
        if self.sign("(").is_some() {
            return self.bracketed();
        }
        if self.sign("{").is_some() {
            let Some(length) = self.text[self.at..].find('}') else { return Err(self.fail("a '}'")) };
            let name = &self.text[self.at..self.at + length];
            let variable = self.variable(name)?;
            self.at += length + 1;
            return Ok(variable);
        }
        self.skip_blanks();
        let rest = &self.text[self.at..];
        match rest.chars().next() {
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_alphabetic() || c == '_' => {
                let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                let word = &rest[..length];
                if let Some(&j) = self.names.places.get(word) {
                    self.at += length;
                    return Ok(Node::Variable(j));
                }
                if let Some((_, function)) = FUNCTIONS.iter().find(|(name, _)| *name == word) {
                    self.at += length;
                    if self.sign("(").is_none() {
                        return Err(self.fail("'(' after a function"));
                    }
                    return Ok(Node::Call(*function, Box::new(self.bracketed()?)));
                }
                let variable = self.variable(word)?;
                self.at += length;
                Ok(variable)
            }
            _ => Err(self.fail("a number, a variable or '('")),
        }
    }

    /// What follows a bracket, up to the one that closes it.
    fn bracketed(&mut self) -> Result<Node> {
        let inner = self.sum()?;
        if self.sign(")").is_some() { Ok(inner) } else { Err(self.fail("')'")) }
    }

    fn number(&mut self) -> Result<Node> {
        let rest = &self.text[self.at..];
        let mut length = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        // An exponent, if digits follow.
        let tail = &rest[length..];
        if let Some(after) = tail.strip_prefix(['e', 'E']) {
            let digits = after.strip_prefix(['+', '-']).unwrap_or(after);
            let count = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            if count > 0 {
                length += tail.len() - digits.len() + count;
            }
        }
        match rest[..length].parse::<f64>() {
            Ok(value) if value.is_finite() => {
                self.at += length;
                Ok(Node::Number(value))
            }
            _ => Err(self.fail("a finite number")),
        }
    }

    fn variable(&self, name: &str) -> Result<Node> {
        if let Some(&j) = self.names.places.get(name) {
            return Ok(Node::Variable(j));
        }
        if self.own && name == OWN {
            return Ok(Node::Own);
        }
        let names = self.names.names;
        let mut known =
            names.iter().take(10).map(|name| format!("{name:.60}")).collect::<Vec<_>>().join(", ");
        if names.len() > 10 {
            known.push_str(", …");
        }
        if self.own {
            known = format!("{OWN}, {known}");
        }
        Err(Error::invalid(format!(
            "'{:.200}': unknown variable '{name:.60}', expected one of {known}",
            self.text.trim()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["x", "y", "gene a", "exp"].map(String::from).to_vec()
    }

    fn parse(text: &str, names: &[String], own: bool) -> Result<Expression> {
        Expression::parse(text, &Variables::new(names), own)
    }

    fn value(text: &str) -> f64 {
        parse(text, &names(), true).unwrap().at(&[2.0, -3.0, 5.0, 7.0], 1)
    }

    #[test]
    fn values_are_those_of_print() {
        for (text, expected) in [
            ("1 + 2*3", 7.0),
            ("-x^2", -4.0),
            ("(-x)^2", 4.0),
            ("2^-1", 0.5),
            ("2^3^2", 512.0),
            ("x - 1 - 1", 0.0),
            ("8/2/2", 2.0),
            ("x*-y", 6.0),
            ("1e2 + 2.5E-1", 100.25),
            ("{gene a} * {x}", 10.0),
            ("1 + self^2", 10.0),
            ("exp", 7.0),
            ("abs(y) + sqrt(4) · 2", 7.0),
            ("--x", 2.0),
            ("x^0.5 * x^0.5", 2.0000000000000004),
            ("sigmoid(0) + tanh(0) + cos(0) + sin(0) + log(1)", 1.5),
        ] {
            assert_eq!(value(text), expected, "{text}");
            // The same at two points at once.
            let x = [9.0, 2.0, 9.0, -3.0, 9.0, 5.0, 9.0, 7.0];
            let mut out = [0.0; 2];
            let expression = parse(text, &names(), true).unwrap();
            expression.fill(&x, 1, &mut out, &mut Vec::new());
            for (found, expected) in [(out[1], expected), (out[0], expression.at(&[9.0; 4], 1))] {
                assert!((found - expected).abs() <= 1e-15 * expected.abs(), "{text}: {found} {expected}");
            }
        }
        let gaussian = parse("exp(-0.5*((x-1)/2)^2)", &["x".into()], false).unwrap();
        assert!((gaussian.at(&[2.0], 0) - (-0.125f64).exp()).abs() < 1e-15);
        assert_eq!(gaussian.variables().iter().copied().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn wrong_texts_get_a_sentence_and_deep_ones_an_end() {
        let deep = "(".repeat(4000) + "x";
        let powers = "2^".repeat(4000) + "x";
        let signs = "-".repeat(4000) + "x";
        let long = "x+".repeat(100_000) + "x";
        for (text, piece) in [
            ("", "found the end at place 1, expected a number"),
            ("x +", "found the end"),
            ("x y", "found 'y' at place 3, expected an operator or the end"),
            ("(x", "expected ')'"),
            ("{x", "expected a '}'"),
            ("sin x", "expected '(' after a function"),
            ("z", "unknown variable 'z', expected one of self, x, y, gene a, exp"),
            ("1..2", "expected a finite number"),
            ("1e999", "expected a finite number"),
            ("x % 2", "found '%'"),
            (&deep, "brackets within each other"),
            (&powers, "powers of powers"),
            (&long, "expected at most 10000"),
        ] {
            let sentence = parse(text, &names(), true).unwrap_err().to_string();
            assert!(sentence.contains(piece), "{sentence:.200}");
        }
        assert_eq!(value(&signs), 2.0);
        assert!(parse("self", &names(), false).is_err());
    }

    #[test]
    fn names_are_written_so_that_they_can_be_read() {
        for name in ["x", "gene a", "exp", "self", "1st", "γ", "a-b"] {
            let names = vec!["other".to_owned(), name.to_owned()];
            let read = parse(&written(name), &names, true).unwrap();
            assert_eq!(read.variables().iter().copied().collect::<Vec<_>>(), [1], "{name}");
        }
    }

    /// The longest sums and products on a stack that recursion over each of their terms would not fit on.
    #[test]
    fn long_texts_are_not_deep() {
        let small = std::thread::Builder::new().stack_size(512 << 10);
        let work = || {
            let count = LONGEST / 2;
            assert_eq!(value(&("x+".repeat(count - 1) + "x")), 2.0 * count as f64);
            assert_eq!(value(&("x-".repeat(count - 1) + "x")), 2.0 - 2.0 * (count - 1) as f64);
            assert_eq!(value(&("1*".repeat(count - 1) + "y")), -3.0);
            assert_eq!(value(&("x/".repeat(count - 1) + "x")), 0.0);
            let deep = "(".repeat(DEEPEST - 1) + "x" + &"+x)".repeat(DEEPEST - 1);
            assert_eq!(value(&deep), 2.0 * DEEPEST as f64);
        };
        small.spawn(work).unwrap().join().unwrap();
    }
}
