// Stage `finite`: counts a step and notes the first entry of the gradient, and the first partial loss, that is NaN or
// infinite. `adam` takes no step once something was noted, so the last good parameters stay.
#bind gradient, losses, state
#use grid

fn bad(value: f32) -> bool { return (bitcast<u32>(value) & 0x7fffffffu) >= 0x7f800000u; }

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    let first = group * 256u + thread;
    for (var at = first; at < job.quads; at += job.groups * 256u) {
        let value = gradient[at];
        if (bad(value.w)) { atomicMin(&state[1], 4u * at + 3u); }
        if (bad(value.z)) { atomicMin(&state[1], 4u * at + 2u); }
        if (bad(value.y)) { atomicMin(&state[1], 4u * at + 1u); }
        if (bad(value.x)) { atomicMin(&state[1], 4u * at); }
    }
    for (var at = first; at < job.losses; at += job.groups * 256u) {
        if (bad(losses[at])) { atomicMin(&state[2], at); }
    }
    // After a bad number the counter stops, so the host can say which step it was.
    if (first == 0u && atomicLoad(&state[3]) == 0u) { atomicAdd(&state[0], 1u); }
}
