// Stage `adjoint`: from pair coefficients (`linear`) or sums over all pairs (`u`, `v`) to ∂/∂b at every sample, to the
// MLP's ∂/∂(what went into its activations), and to sums over the block's rows of everything that a gradient adds up
// over rows. A workgroup of 16 lanes × 16 column quads takes one block of 64 rows and 64 coordinates.
#bind work, parameters, columns
#use grid
#use rows
#use diffusion
#use activation
#use tree
#use adjoint_source

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    let first_row = group / job.column_tiles * ROW_BLOCK;
    let block = block_of(first_row);
    let k = group % job.column_tiles * 16u + thread % 16u;
    let lane = thread / 16u;
    let inside = k < job.stride;
    let record = (job.first_block + group / job.column_tiles) * job.columns_stride;

    var sum = Sums();
    if (inside) {
        for (var step = 0u; step < STEPS; step++) {
            visit(first_row + STEP_ROWS * (lane + 16u * step), block, k, &sum);
        }
    }
    let bar = sum_lanes(sum.bar, thread);
    let alpha_bar = sum_lanes(sum.alpha, thread);
    if (inside && lane == 0u) {
        columns[record + job.at_bar_sum + k] = bar;
        columns[record + job.at_alpha_sum + k] = alpha_bar;
    }
    if (ALL_PAIRS) {
        let euler = sum_lanes(sum.euler, thread);
        if (inside && lane == 0u) { columns[record + job.at_euler_sum + k] = euler; }
        // Numbers of rows, once per block.
        var numbers = vec4<f32>(0.0);
        if (group % job.column_tiles == 0u && thread % 16u == 0u) {
            for (var step = 0u; step < STEPS; step++) {
                numbers += row_numbers(first_row + lane + 16u * step, block);
            }
        }
        let total = sum_lanes(numbers, thread);
        if (group % job.column_tiles == 0u && thread == 0u) { columns[record] = total; }
    }
    if (MLP) {
        // The units of this thread's four networks, one of each at a time; rows are those that this thread has written.
        for (var unit = 0u; unit < job.hidden; unit++) {
            let at = unit * job.stride + k;
            var output = vec4<f32>(0.0);
            var before = vec4<f32>(0.0);
            if (inside) {
                let weight = parameters[job.at_output + at];
                for (var step = 0u; step < STEPS * STEP_ROWS; step++) {
                    let row = first_row + STEP_ROWS * (lane + 16u * (step / STEP_ROWS)) + step % STEP_ROWS;
                    let own = row * job.work_stride;
                    let b_bar = work[own + job.at_bar + k];
                    let value = work[own + job.at_hidden + at];
                    let inner = b_bar * weight * slope(value);
                    output = fma(b_bar, value, output);
                    before += inner;
                    work[own + job.at_hidden + at] = inner;
                }
            }
            let output_sum = sum_lanes(output, thread);
            let before_sum = sum_lanes(before, thread);
            if (inside && lane == 0u) {
                columns[record + job.at_output_sum + at] = output_sum;
                columns[record + job.at_hidden_sum + at] = before_sum;
            }
        }
    }
}
