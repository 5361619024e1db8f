// Stage `traces` (full diffusion): tr a and tr a² of every environment; one workgroup each. Each thread sums whole
// rows of a, chunk by chunk, then a tree.
#bind diffusion
#use grid
#use tree

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let e = group_of(id);
    if (e >= job.groups) { return; }
    let base = e * job.diffusion_stride;
    var traces = vec4<f32>(0.0);
    for (var row = thread; row < job.dim; row += 256u) {
        var squares = 0.0;
        for (var k = 0u; k < job.stride; k++) {
            let a = diffusion[base + row * job.stride + k];
            squares += dot(a, a);
        }
        traces += vec4<f32>(diffusion[base + row * job.stride + row / 4u][row % 4u], squares, 0.0, 0.0);
    }
    let total = sum_all(traces, thread);
    if (thread == 0u) { diffusion[base + job.at_traces] = total; }
}
