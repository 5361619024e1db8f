// Adjoints of a row from its sums over all pairs: ∂/∂b̃ = 2 (S_b + R_r + a R_z), and for a diagonal diffusion
// ∂/∂α = 2 (b̃ R_z + x R_w + α x R_m). See src/engine/cpu/all_pairs/mod.rs. Padding rows have no sums and get 0.
#bind x, work, centres
#use adjoint_common
#use sums

const STEPS: u32 = 4u;     // rows per thread
const STEP_ROWS: u32 = 1u;

fn visit(row: u32, block: Block, k: u32, sum: ptr<function, Sums>) {
    let record = row * job.work_stride;
    if (!is_sample(row, block)) {
        work[record + job.at_bar + k] = vec4<f32>(0.0);
        if (FULL) { work[record + job.at_left + k] = vec4<f32>(0.0); }
        return;
    }
    let e = block.environment;
    let two = 2.0 * block.weight;
    let b = work[record + job.at_b + k];
    let value = x[row * job.stride + k];
    var bar = sum_of(row, 0u, k);
    if (QUADRATIC) { bar += sum_of(row, SUM_R, k); }
    if (FULL) {
        bar += work[record + job.at_left + k];
    } else {
        let r_z = job.z_factor * sum_of(row, SUM_Z, k);
        let centred = value - centres[e * job.stride + k];
        var alpha_bar = b * r_z + alpha(e, k) * centred * (job.m_factor * sum_of(row, SUM_M, k));
        if (QUADRATIC) { alpha_bar += centred * sum_of(row, SUM_W, k); }
        bar += alpha(e, k) * r_z;
        (*sum).alpha += two * alpha_bar;
    }
    if (QUADRATIC && LINEAR && DISTINCT) {
        // `all_pairs` has added c_y y over all columns, the row itself among them.
        let numbers = work[record];
        bar -= numbers.x * numbers.x * numbers.z * value;
    }
    bar *= two;
    let ax_bar = untilt(row, e, k, bar, two * numbers_of(row).x, sum);
    if (FULL) { work[record + job.at_left + k] = ax_bar; }
}

// (0, ∂/∂tr a, ∂/∂tr a², 0) of a row.
fn row_numbers(row: u32, block: Block) -> vec4<f32> {
    if (!is_sample(row, block)) { return vec4<f32>(0.0); }
    let sums_of_row = numbers_of(row);
    var trace = sums_of_row.y;
    var trace2 = 0.5 * sums_of_row.z;
    // ζ holds −½ τ tr a; the linear part of SKDS ¼ tr a² beside ½ rest.
    if (TILTED && QUADRATIC) { trace -= work[row * job.work_stride].y * sums_of_row.x; }
    if (LINEAR && !QUADRATIC) { trace2 += 0.5 * sums_of_row.x; }
    return block.weight * vec4<f32>(0.0, trace, trace2, 0.0);
}
