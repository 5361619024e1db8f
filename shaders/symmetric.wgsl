// Stage `symmetric` (full diffusion): the whole ∂/∂a + (∂/∂a)ᵀ of every environment, with what goes through tr a and
// tr a², between its scales, and ∂/∂log_scale_i = ⟨its row i, row i of a⟩. One workgroup per row of a.
#bind parameters, diffusion, totals, a_bar, symmetric, gradient
#use grid
#use tree
#use noted

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    let e = group / job.dim;
    let row = group % job.dim;
    let base = e * job.dim * job.stride;
    let trace_bars = totals[e * job.columns_stride];
    var sum = vec4<f32>(0.0);
    for (var k = thread; k < job.stride; k += 256u) {
        let a = diffusion[e * job.diffusion_stride + row * job.stride + k];
        // Columns of padding would be read from other rows: they meet zeros of a, but must be finite.
        let column = min(vec4<u32>(4u * k, 4u * k + 1u, 4u * k + 2u, 4u * k + 3u), vec4<u32>(job.dim - 1u));
        let across = vec4<f32>(
            a_bar[base + column.x * job.stride + row / 4u][row % 4u],
            a_bar[base + column.y * job.stride + row / 4u][row % 4u],
            a_bar[base + column.z * job.stride + row / 4u][row % 4u],
            a_bar[base + column.w * job.stride + row / 4u][row % 4u]);
        var both = a_bar[base + row * job.stride + k] + across + 4.0 * trace_bars.z * a;
        let diagonal = vec4<u32>(4u * k, 4u * k + 1u, 4u * k + 2u, 4u * k + 3u) == vec4<u32>(row);
        both += select(vec4<f32>(0.0), vec4<f32>(2.0 * trace_bars.y), diagonal);
        let scales = job.at_scale + e * job.stride;
        let scale = exp(parameters[scales + row / 4u][row % 4u]) * exp(parameters[scales + k]);
        symmetric[base + row * job.stride + k] = scale * both;
        sum += both * a;
    }
    let total = sum_all(sum, thread);
    if (thread == 0u) {
        let at = job.at_scale + e * job.stride + row / 4u;
        let slope = dot(total, vec4<f32>(1.0));
        gradient[at][row % 4u] = slope;
        if (is_bad(slope)) { note_slope(4u * at + row % 4u); }
    }
}
