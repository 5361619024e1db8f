// Stage `finish`: from the environments' totals to the gradients of shifts, scales, biases, noise and the MLP's outer
// layers; for all pairs also the loss: it is homogeneous of degree two in drift and diffusion, so by Euler's theorem it
// is half of ⟨∂/∂b, b⟩ + ⟨∂/∂a, a⟩.
#bind diffusion, totals, losses
#use grid
#use tree
#use gradient

// ∂/∂(log_noise + log_scale) of an environment with diagonal diffusion: α = exp(2 ·), ∂tr a/∂α = 1, ∂tr a²/∂α = 2α.
fn share(e: u32, k: u32) -> vec4<f32> {
    let alpha = diffusion[e * job.diffusion_stride + k];
    let traces = totals[e * job.columns_stride];
    return 2.0 * alpha * (totals[e * job.columns_stride + job.at_alpha_sum + k] + traces.y + 2.0 * alpha * traces.z);
}

fn finish_coordinates(tile: u32, thread: u32) {
    let k = tile * 16u + thread % 16u;
    let lane = thread / 16u;
    let inside = k < job.stride;
    var bias = vec4<f32>(0.0);
    var noise = vec4<f32>(0.0);
    if (inside) {
        for (var e = lane; e < job.environments; e += 16u) {
            let bar = totals[e * job.columns_stride + job.at_bar_sum + k];
            put_gradient(job.at_shift + e * job.stride + k, bar);
            bias += bar;
            if (!FULL) {
                let noise_bar = share(e, k);
                put_gradient(job.at_scale + e * job.stride + k, noise_bar);
                noise += noise_bar;
            }
        }
    }
    let bias_sum = sum_lanes(bias, thread);
    let noise_sum = sum_lanes(noise, thread);
    if (inside && lane == 0u) {
        put_gradient(job.at_biases + k, bias_sum);
        if (!FULL) { put_gradient(job.at_noise + k, noise_sum); }
    }
}

fn finish_units(tile: u32, thread: u32) {
    let at = tile * 16u + thread % 16u;
    let lane = thread / 16u;
    let inside = at < 2u * job.unit_stride;
    var sum = vec4<f32>(0.0);
    if (inside) {
        for (var e = lane; e < job.environments; e += 16u) {
            sum += totals[e * job.columns_stride + job.at_output_sum + at];
        }
    }
    let total = sum_lanes(sum, thread);
    if (inside && lane == 0u) {
        let output = at < job.unit_stride;
        put_gradient(select(job.at_hidden_biases - job.unit_stride, job.at_output, output) + at, total);
    }
}

fn finish_loss(e: u32, thread: u32) {
    var sum = vec4<f32>(0.0);
    for (var k = thread; k < job.stride; k += 256u) {
        sum += 0.5 * totals[e * job.columns_stride + job.at_euler_sum + k];
        // ⟨∂/∂a, a⟩ is half of the sum of the derivatives with respect to log-scales, whatever the form of a.
        if (FULL) {
            sum += 0.25 * gradient[job.at_scale + e * job.stride + k];
        } else {
            sum += 0.25 * share(e, k);
        }
    }
    let total = sum_lanes(sum, thread);
    if (thread < 16u) {
        let loss = dot(total, vec4<f32>(1.0)) * f32(job.environments);
        losses[16u * e + thread] = loss;
        note_loss(16u * e + thread, loss);
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    // Counts a step of training. After a bad number the counter stops, so the host can say which step it was.
    if (group == 0u && thread == 0u && atomicLoad(&state[3]) == 0u) { atomicAdd(&state[0], 1u); }
    if (group < job.column_tiles) {
        finish_coordinates(group, thread);
    } else if (group < job.column_tiles + job.unit_tiles) {
        finish_units(group - job.column_tiles, thread);
    } else {
        finish_loss(group - job.column_tiles - job.unit_tiles, thread);
    }
}
