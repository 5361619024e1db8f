//! Evaluates functions of a parsed shader on the host, in f64: those without branches and variables, which is how
//! kernels and activations are written. Vectors are of equal numbers, so a number stands for them.

use naga::{
    BinaryOperator, Expression, Function, Handle, Literal, MathFunction, Module, Statement, UnaryOperator,
};

/// What the function `name` returns: a number, or the numbers of a struct. `job` are the uniform's numbers by name.
pub fn evaluate(module: &Module, name: &str, arguments: &[f64], job: &dyn Fn(&str) -> f64) -> Vec<f64> {
    let mut functions =
        module.functions.iter().filter(|(_, function)| function.name.as_deref() == Some(name));
    let (Some((_, function)), None) = (functions.next(), functions.next()) else {
        panic!("expected one function {name}");
    };
    let returned = function.body.iter().find_map(|statement| match statement {
        Statement::Return { value } => *value,
        Statement::Emit(_) => None,
        other => panic!("{name} has a statement {other:?}, expected let and return"),
    });
    Call { module, function, arguments, job }.value(returned.expect("a value is returned"))
}

/// Of an exponential: a shader has no infinity, so none may be relied on.
fn within_f32(value: f64) -> f64 {
    assert!(value <= f64::from(f32::MAX), "an exponential overflows f32");
    value
}

struct Call<'a> {
    module: &'a Module,
    function: &'a Function,
    arguments: &'a [f64],
    job: &'a dyn Fn(&str) -> f64,
}

impl Call<'_> {
    fn number(&self, expression: Handle<Expression>) -> f64 {
        let values = self.value(expression);
        assert!(
            values.iter().all(|value| *value == values[0]),
            "expected a vector of equal numbers: {values:?}"
        );
        values[0]
    }

    fn value(&self, expression: Handle<Expression>) -> Vec<f64> {
        let truth = |is: bool| f64::from(u8::from(is));
        let value = match &self.function.expressions[expression] {
            Expression::Literal(Literal::F32(value)) => f64::from(*value),
            Expression::ZeroValue(_) => 0.0,
            Expression::FunctionArgument(at) => self.arguments[*at as usize],
            Expression::Splat { value, .. } => self.number(*value),
            Expression::Compose { components, .. } => {
                return components.iter().map(|component| self.number(*component)).collect();
            }
            Expression::Load { pointer } => (self.job)(&self.field(*pointer)),
            Expression::Unary { op: UnaryOperator::Negate, expr } => -self.number(*expr),
            Expression::Binary { op, left, right } => {
                let (left, right) = (self.number(*left), self.number(*right));
                match op {
                    BinaryOperator::Add => left + right,
                    BinaryOperator::Subtract => left - right,
                    BinaryOperator::Multiply => left * right,
                    BinaryOperator::Divide => left / right,
                    BinaryOperator::Greater => truth(left > right),
                    BinaryOperator::GreaterEqual => truth(left >= right),
                    BinaryOperator::Less => truth(left < right),
                    other => panic!("operator {other:?} is not known here"),
                }
            }
            Expression::Select { condition, accept, reject } => {
                self.number(if self.number(*condition) != 0.0 { *accept } else { *reject })
            }
            Expression::Math { fun, arg, arg1, .. } => {
                let (first, second) = (self.number(*arg), arg1.map(|arg| self.number(arg)));
                match (fun, second) {
                    (MathFunction::Abs, None) => first.abs(),
                    (MathFunction::Exp, None) => within_f32(first.exp()),
                    (MathFunction::Log, None) => first.ln(),
                    (MathFunction::Sqrt, None) => first.sqrt(),
                    (MathFunction::InverseSqrt, None) => first.sqrt().recip(),
                    (MathFunction::Pow, Some(second)) => first.powf(second),
                    (MathFunction::Max, Some(second)) => first.max(second),
                    (MathFunction::Min, Some(second)) => first.min(second),
                    other => panic!("function {other:?} is not known here"),
                }
            }
            other => panic!("expression {other:?} is not known here"),
        };
        vec![value]
    }

    /// The name of the uniform's member that a pointer points to.
    fn field(&self, pointer: Handle<Expression>) -> String {
        let Expression::AccessIndex { base, index } = self.function.expressions[pointer] else {
            panic!("expected a member of the uniform");
        };
        let Expression::GlobalVariable(variable) = self.function.expressions[base] else {
            panic!("expected the uniform");
        };
        let naga::TypeInner::Struct { members, .. } =
            &self.module.types[self.module.global_variables[variable].ty].inner
        else {
            panic!("expected a struct");
        };
        members[index as usize].name.clone().expect("members have names")
    }
}
