// Stage `penalty`: adds the group lasso's subgradient to the gradient and leaves partial sums of its value: single
// effects (ingoing), all effects of a variable (outgoing, whose norms stage `norms` made), or both. Where a group is 0
// its subgradient is 0. Every effect is multiplied by its multiplier first. See src/model/penalty.rs.
#bind parameters, gradient, multipliers, norms, penalties
#use grid
#use tree

fn inverse(norm: vec4<f32>) -> vec4<f32> {
    let zero = norm <= vec4<f32>(0.0);
    return select(1.0 / select(norm, vec4<f32>(1.0), zero), vec4<f32>(0.0), zero);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    var value = vec4<f32>(0.0);
    for (var at = group * 256u + thread; at < job.dim * job.stride; at += job.groups * 256u) {
        let variable = at / job.stride;
        let k = at % job.stride;
        let own = vec4<u32>(4u * k, 4u * k + 1u, 4u * k + 2u, 4u * k + 3u) == vec4<u32>(variable);
        let first = job.at_weights + variable * job.units_per_variable * job.stride + k;
        let multiplier = multipliers[at];
        var slope = vec4<f32>(0.0);
        if (job.ingoing != 0.0) {
            var largest = vec4<f32>(0.0);
            for (var unit = 0u; unit < job.units_per_variable; unit++) {
                largest = max(largest, abs(parameters[first + unit * job.stride]));
            }
            let scale = select(vec4<f32>(1.0), largest, largest > vec4<f32>(0.0));
            var square = vec4<f32>(0.0);
            for (var unit = 0u; unit < job.units_per_variable; unit++) {
                let scaled = parameters[first + unit * job.stride] / scale;
                square += scaled * scaled;
            }
            let norm = select(scale * sqrt(square), vec4<f32>(0.0), own);
            slope += job.ingoing * multiplier * inverse(norm);
            value += job.ingoing * multiplier * norm;
        }
        if (job.outgoing != 0u) {
            slope += multiplier * multiplier * inverse(norms[k]);
            if (variable == 0u) { value += norms[k]; }
        }
        slope = select(job.strength * slope, vec4<f32>(0.0), own);
        for (var unit = 0u; unit < job.units_per_variable; unit++) {
            gradient[first + unit * job.stride] += slope * parameters[first + unit * job.stride];
        }
    }
    let total = sum_all(value, thread);
    if (thread == 0u) { penalties[group] = job.strength * dot(total, vec4<f32>(1.0)); }
}
