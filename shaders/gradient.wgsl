// Writes the gradient, and notes in the state of a training the first entry, and the first partial loss, that is NaN or
// infinite: `adam` takes no step once something was noted, so the last good parameters stay.
#bind gradient
#use noted

fn put_gradient(at: u32, value: vec4<f32>) {
    gradient[at] = value;
    if (is_bad(value.w)) { note_slope(4u * at + 3u); }
    if (is_bad(value.z)) { note_slope(4u * at + 2u); }
    if (is_bad(value.y)) { note_slope(4u * at + 1u); }
    if (is_bad(value.x)) { note_slope(4u * at); }
}
