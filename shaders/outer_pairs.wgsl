// Neighbouring rows have no sums: everything is in the rows that `adjoint` left.
fn choose_sum(here: Environment) {}
fn weighted_sum(row: u32, quad: u32) -> vec4<f32> { return vec4<f32>(0.0); }
