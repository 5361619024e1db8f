// Stage `adam`: one update of every free parameter (Kingma and Ba), with the step counted on the device. Does nothing
// once `finite` has noted something.
#bind parameters, gradient, moments, free, state
#use grid

const NONE: u32 = 0xffffffffu;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    let first = group * 256u + thread;
    if (atomicLoad(&state[1]) != NONE || atomicLoad(&state[2]) != NONE) {
        if (first == 0u) { atomicStore(&state[3], 1u); }
        return;
    }
    let step = f32(atomicLoad(&state[0]));
    // 1 − βᵗ through exp: `pow` of a number near 1 loses digits on some devices.
    let correct1 = 1.0 - exp(step * log(job.beta1));
    let correct2 = 1.0 - exp(step * log(job.beta2));
    for (var at = first; at < job.quads; at += job.groups * 256u) {
        let slope = gradient[at] * free[at];
        let mean = job.beta1 * moments[2u * at] + (1.0 - job.beta1) * slope;
        let square = job.beta2 * moments[2u * at + 1u] + (1.0 - job.beta2) * slope * slope;
        moments[2u * at] = mean;
        moments[2u * at + 1u] = square;
        let change = (mean / correct1) / (sqrt(square / correct2) + job.epsilon);
        parameters[at] -= job.learning_rate * free[at] * change;
    }
}
