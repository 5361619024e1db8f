// Stage `norms`: ‖(m_ji e_ji)_{j≠i}‖ of every variable i over all units of all other variables, with the multipliers m of
// effects: the penalty's outgoing groups. Scaled by the largest entry, so that squares of small weights do not vanish.
#bind parameters, multipliers, norms
#use grid
#use tree

// The row's weights times their multipliers, without the effect of a variable on itself.
fn others(unit: u32, k: u32) -> vec4<f32> {
    let variable = unit / job.units_per_variable;
    let own = vec4<u32>(4u * k, 4u * k + 1u, 4u * k + 2u, 4u * k + 3u) == vec4<u32>(variable);
    let weights = multipliers[variable * job.stride + k] * parameters[job.at_weights + unit * job.stride + k];
    return select(weights, vec4<f32>(0.0), own);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    let k = group * 16u + thread % 16u;
    let lane = thread / 16u;
    let inside = k < job.stride;
    let units = job.dim * job.units_per_variable;
    var largest = vec4<f32>(0.0);
    if (inside) {
        for (var unit = lane; unit < units; unit += 16u) { largest = max(largest, abs(others(unit, k))); }
    }
    tree[thread] = largest;
    workgroupBarrier();
    for (var at = thread % 16u; at < 256u; at += 16u) { largest = max(largest, tree[at]); }
    let scale = select(vec4<f32>(1.0), largest, largest > vec4<f32>(0.0));
    var sum = vec4<f32>(0.0);
    if (inside) {
        for (var unit = lane; unit < units; unit += 16u) {
            let scaled = others(unit, k) / scale;
            sum += scaled * scaled;
        }
    }
    let total = sum_lanes(sum, thread);
    if (inside && lane == 0u) { norms[k] = scale * sqrt(total); }
}
