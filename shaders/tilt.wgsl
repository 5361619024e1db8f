// Stage `tilt`: reads b out of the MLP's activations, and moves the kernel's ω from the pairs into each sample's
// drift: b̃ = b − θ τ a x, with rest = ⟨b̃, a x⟩ (SKDS, linear part) or ζ (KDS). See src/engine/cpu/tilt.rs.
// A workgroup takes 8 rows with 32 threads each.
#bind x, work, parameters, diffusion
#use grid
#use rows
#use diffusion

const LANES: u32 = 256u / GROUP_ROWS;

var<workgroup> partial: array<vec4<f32>, 256>; // (8 rows, 32 lanes): |x|², ⟨b, x⟩ or ⟨b, a x⟩, ⟨x, a x⟩ or |a x|²

// b_j = biases_j + shift_j + ⟨output_j, units of network j⟩ − x_j for four j.
fn read_out(row: u32, e: u32, k: u32) -> vec4<f32> {
    var sum = vec4<f32>(0.0);
    let units = row * job.work_stride + job.at_hidden;
    for (var unit = 0u; unit < job.hidden; unit++) {
        let at = unit * job.stride + k;
        sum = fma(work[units + at], parameters[job.at_output + at], sum);
    }
    let offset = parameters[job.at_biases + k] + parameters[job.at_shift + e * job.stride + k];
    return sum + (offset - x[row * job.stride + k]);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    let row = group * GROUP_ROWS + thread / LANES;
    let lane = thread % LANES;
    let e = block_of(row).environment;
    let record = row * job.work_stride;
    var sum = vec4<f32>(0.0);
    for (var k = lane; k < job.stride; k += LANES) {
        var b: vec4<f32>;
        if (MLP) {
            b = read_out(row, e, k);
            work[record + job.at_b + k] = b;
        } else {
            b = work[record + job.at_b + k];
        }
        if (TILTED) {
            let value = x[row * job.stride + k];
            let ax = spread(row, e, k, value);
            if (QUADRATIC) {
                sum += vec4<f32>(dot(value, value), dot(b, value), dot(value, ax), 0.0);
            } else {
                sum += vec4<f32>(dot(value, value), dot(b, ax), dot(ax, ax), 0.0);
            }
        }
    }
    if (TILTED) {
        partial[thread] = sum;
        for (var half = LANES / 2u; half >= 1u; half /= 2u) {
            workgroupBarrier();
            if (lane < half) { partial[thread] += partial[thread + half]; }
        }
        workgroupBarrier();
        let total = partial[thread - lane];
        let tau = 1.0 / (1.0 + total.x);
        let factor = TILT_SHARE * tau;
        for (var k = lane; k < job.stride; k += LANES) {
            let ax = spread(row, e, k, x[row * job.stride + k]);
            work[record + job.at_b + k] -= factor * ax;
        }
        if (lane == 0u) {
            var rest = 0.0;
            if (QUADRATIC) {
                let trace = diffusion[e * job.diffusion_stride + job.at_traces].x;
                rest = 1.5 * tau * tau * total.z - tau * (total.y + 0.5 * trace);
            } else if (LINEAR) {
                rest = total.y - factor * total.z;
            }
            work[record] = vec4<f32>(sqrt(tau), tau, rest, 0.0);
        }
    }
}
