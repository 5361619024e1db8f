// What one pair (x, y) is made of and how its term moves with it: the twins of `Dots` and `Coefficients` in
// src/objective/mod.rs, under the same names.

// φ and its derivatives at ρ.
struct Phi { p0: f32, p1: f32, p2: f32, p3: f32, p4: f32 }

struct Dots {
    v: f32, g: f32, m: f32,
    pi: f32, pi_other: f32, w: f32,
    inner: f32, b_y: f32, b_x: f32,
    rest: f32, rest_other: f32,
    trace: f32, trace2: f32,
}

struct Coefficients {
    b: f32, r: f32, r_other: f32, z: f32, w: f32, m: f32, y: f32, x: f32,
    rest: f32, rest_other: f32, trace: f32, trace2: f32,
}
