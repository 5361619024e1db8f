// Stage `norms`: ‖(m_ji e_ji)_{j≠i}‖ of every variable i over all units of all other variables, with the multipliers m of
// effects: the penalty's outgoing groups. Scaled by the largest entry so far, so that squares of small weights do not
// vanish. A workgroup takes 4 quads of variables with 64 lanes each.
#bind parameters, multipliers, norms
#use grid

var<workgroup> tree: array<vec4<f32>, 256>; // (64 lanes, 4 quads)

// The row's weights times their multipliers, without the effect of a variable on itself.
fn others(row: u32, k: u32) -> vec4<f32> {
    // Rows of padding are 0.
    let variable = min(row % (4u * job.stride), job.dim - 1u);
    let own = vec4<u32>(4u * k, 4u * k + 1u, 4u * k + 2u, 4u * k + 3u) == vec4<u32>(variable);
    var weights = parameters[job.at_weights + row * job.stride + k];
    if (job.weighted != 0u) { weights *= multipliers[variable * job.stride + k]; }
    return select(weights, vec4<f32>(0.0), own);
}

// What to divide by: 1 in place of 0.
fn divisor(largest: vec4<f32>) -> vec4<f32> { return select(vec4<f32>(1.0), largest, largest > vec4<f32>(0.0)); }

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    let k = group * 4u + thread % 4u;
    let inside = k < job.stride;
    var largest = vec4<f32>(0.0);
    var sum = vec4<f32>(0.0); // of squares, in units of `largest`
    if (inside) {
        for (var row = thread / 4u; row < 4u * job.stride * job.units_per_variable; row += 64u) {
            let size = abs(others(row, k));
            let before = largest;
            largest = max(largest, size);
            let shrink = before / divisor(largest);
            let part = size / divisor(largest);
            sum = fma(sum, shrink * shrink, part * part);
        }
    }
    tree[thread] = largest;
    for (var half = 128u; half >= 4u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) { tree[thread] = max(tree[thread], tree[thread + half]); }
    }
    workgroupBarrier();
    let scale = tree[thread % 4u];
    workgroupBarrier();
    let shrink = largest / divisor(scale);
    tree[thread] = sum * shrink * shrink;
    for (var half = 128u; half >= 4u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) { tree[thread] += tree[thread + half]; }
    }
    if (inside && thread < 4u) { norms[k] = scale * sqrt(tree[thread]); }
}
