// Stage `diffusion` (diagonal): α = exp(2 (log_noise + log_scale)) and the traces of a and a² of every environment.
// One workgroup per environment; padding coordinates get α = 0.
#bind parameters, diffusion
#use grid
#use tree

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let e = group_of(id);
    if (e >= job.groups) { return; }
    var traces = vec4<f32>(0.0);
    for (var k = thread; k < job.stride; k += 256u) {
        let noise = parameters[job.at_noise + k] + parameters[job.at_scale + e * job.stride + k];
        let inside = vec4<u32>(4u * k, 4u * k + 1u, 4u * k + 2u, 4u * k + 3u) < vec4<u32>(job.dim);
        let alpha = select(vec4<f32>(0.0), exp(2.0 * noise), inside);
        diffusion[e * job.diffusion_stride + k] = alpha;
        traces += vec4<f32>(dot(alpha, vec4<f32>(1.0)), dot(alpha, alpha), 0.0, 0.0);
    }
    let total = sum_all(traces, thread);
    if (thread == 0u) { diffusion[e * job.diffusion_stride + job.at_traces] = total; }
}
