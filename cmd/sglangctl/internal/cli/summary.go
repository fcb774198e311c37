// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package cli // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/cli"

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/status"
)

func newSummary() *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use:   "summary",
		Short: "Say what a running collector took in, kept and refused",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !isURL(url) {
				return fmt.Errorf("url must be a URL such as %s (got %q)", ownMetricURL, url)
			}
			const limit = 10 * time.Second
			ctx, cancel := context.WithTimeout(cmd.Context(), limit)
			defer cancel()
			page, err := status.Fetch(ctx, url)
			if err != nil {
				return fmt.Errorf("is the collector running? (--url) %w", err)
			}
			status.Of(page).Print(cmd.OutOrStdout())
			return nil
		},
	}
	cmd.Flags().StringVar(&url, "url", ownMetricURL, "the collector's own metrics")
	return cmd
}
