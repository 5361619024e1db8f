// Stage `adam`: one update of every free parameter (Kingma and Ba), with the step counted on the device, by the gradient
// plus the group lasso's subgradient: single effects (ingoing), all effects of a variable (outgoing, whose norms stage
// `norms` made), or both. Where a group is 0 its subgradient is 0. Every effect is multiplied by its multiplier first.
// Partial sums of the penalty's value are left. See src/model/penalty.rs. Nothing changes once something was noted.
#bind parameters, gradient, moments, free, state, multipliers, norms, penalties
#use grid
#use tree

const NONE: u32 = 0xffffffffu;

fn inverse(norm: vec4<f32>) -> vec4<f32> {
    let zero = norm <= vec4<f32>(0.0);
    return select(1.0 / select(norm, vec4<f32>(1.0), zero), vec4<f32>(0.0), zero);
}

// Which numbers of a quad are free: eight quads share a word.
fn free_of(at: u32) -> vec4<bool> {
    let bits = free[at / 8u] >> (4u * (at % 8u));
    return (vec4<u32>(bits) & vec4<u32>(1u, 2u, 4u, 8u)) != vec4<u32>(0u);
}

// `corrections` are 1 − βᵗ of both moments.
fn update(at: u32, whole_slope: vec4<f32>, corrections: vec2<f32>) {
    let is_free = free_of(at);
    let slope = select(vec4<f32>(0.0), whole_slope, is_free);
    let mean = job.beta1 * moments[2u * at] + (1.0 - job.beta1) * slope;
    let square = job.beta2 * moments[2u * at + 1u] + (1.0 - job.beta2) * slope * slope;
    moments[2u * at] = mean;
    moments[2u * at + 1u] = square;
    let change = (mean / corrections.x) / (sqrt(square / corrections.y) + job.epsilon);
    parameters[at] -= select(vec4<f32>(0.0), job.learning_rate * change, is_free);
}

// Of the effects of four variables on `variable`, whose first units' weights are at `first` and the others `next` apart:
// what their weights are multiplied by in the subgradient, and their share of the penalty.
fn penalise(variable: u32, k: u32, first: u32, next: u32, value: ptr<function, vec4<f32>>) -> vec4<f32> {
    let own = vec4<u32>(4u * k, 4u * k + 1u, 4u * k + 2u, 4u * k + 3u) == vec4<u32>(variable);
    var multiplier = vec4<f32>(1.0);
    if (job.weighted != 0u) { multiplier = multipliers[variable * job.stride + k]; }
    var factor = vec4<f32>(0.0);
    if (job.ingoing != 0.0) {
        var largest = vec4<f32>(0.0);
        for (var unit = 0u; unit < job.units_per_variable; unit++) {
            largest = max(largest, abs(parameters[first + unit * next]));
        }
        let scale = select(vec4<f32>(1.0), largest, largest > vec4<f32>(0.0));
        var square = vec4<f32>(0.0);
        for (var unit = 0u; unit < job.units_per_variable; unit++) {
            let scaled = parameters[first + unit * next] / scale;
            square += scaled * scaled;
        }
        let norm = select(scale * sqrt(square), vec4<f32>(0.0), own);
        factor += job.ingoing * multiplier * inverse(norm);
        *value += job.ingoing * multiplier * norm;
    }
    if (job.outgoing != 0u) {
        factor += multiplier * multiplier * inverse(norms[k]);
        if (variable == 0u) { *value += norms[k]; }
    }
    return select(job.strength * factor, vec4<f32>(0.0), own);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    let thread_of_all = group * 256u + thread;
    let threads = job.groups * 256u;
    var value = vec4<f32>(0.0);
    if (atomicLoad(&state[1]) != NONE || atomicLoad(&state[2]) != NONE) {
        if (thread_of_all == 0u) { atomicStore(&state[3], 1u); }
    } else {
        // 1 − βᵗ through exp: `pow` of a number near 1 loses digits on some devices.
        let step = f32(atomicLoad(&state[0]));
        let corrections = vec2<f32>(1.0 - exp(step * log(job.beta1)), 1.0 - exp(step * log(job.beta2)));
        let next = 4u * job.stride * job.stride; // from a unit to the same variable's next one
        for (var effect = thread_of_all; effect < job.dim * job.stride; effect += threads) {
            let first = job.at_weights + effect;
            let factor = penalise(effect / job.stride, effect % job.stride, first, next, &value);
            for (var unit = 0u; unit < job.units_per_variable; unit++) {
                let at = first + unit * next;
                update(at, fma(factor, parameters[at], gradient[at]), corrections);
            }
        }
        // All that comes after the weights.
        let weights = job.at_weights + next * job.units_per_variable;
        for (var at = weights + thread_of_all; at < job.quads; at += threads) { update(at, gradient[at], corrections); }
    }
    let total = sum_all(value, thread);
    if (thread == 0u) { penalties[group] = job.strength * dot(total, vec4<f32>(1.0)); }
}
