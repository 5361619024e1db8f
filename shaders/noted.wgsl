// What is NaN or infinite, noted in the state of a training. Tested by bits: a compiler may assume that there are none.
#bind state

fn is_bad(value: f32) -> bool { return (bitcast<u32>(value) & 0x7fffffffu) >= 0x7f800000u; }

fn note_slope(number: u32) { atomicMin(&state[1], number); }

fn note_loss(at: u32, value: f32) {
    if (is_bad(value)) { atomicMin(&state[2], at); }
}
