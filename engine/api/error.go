// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package api // import "github.com/otelcol-sglang/otelcol-sglang/engine/api"

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
)

// errorBody is the OpenAI endpoints' error.
type errorBody struct {
	Object  string  `json:"object"`
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

const badRequest = "BadRequestError"

func openAIError(status int, kind, message string) errorBody {
	return errorBody{Object: "error", Message: message, Type: kind, Code: status}
}

func refuse(w http.ResponseWriter, message string) {
	writeJSON(w, http.StatusBadRequest, openAIError(http.StatusBadRequest, badRequest, message))
}

// nativeError is /generate's error.
func nativeError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]any{"error": map[string]any{"message": message}})
}

// kindOfStatus is the type of an error that is known by its status alone.
func kindOfStatus(status int) string {
	if status == http.StatusBadRequest {
		return badRequest
	}
	return strconv.Itoa(status)
}

// decode reads a JSON body; it has answered where it returns false.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		refuse(w, "Unsupported Media Type: Only 'application/json' is allowed")
		return false
	}
	body, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		writeJSON(w, http.StatusRequestEntityTooLarge, openAIError(http.StatusRequestEntityTooLarge, "413",
			fmt.Sprintf("request body exceeds %d bytes", tooLarge.Limit)))
		return false
	}
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		refuse(w, validation(err))
		return false
	}
	return true
}

// validation words a body that does not fit.
func validation(err error) string {
	var typed *json.UnmarshalTypeError
	if errors.As(err, &typed) && typed.Field != "" {
		return fmt.Sprintf("1 validation error:\n  {'type': 'type_error', 'loc': ('body', '%s'), 'msg': 'Input should be a valid %s', 'input': %s}",
			typed.Field, typed.Type, typed.Value)
	}
	return "1 validation error:\n  {'type': 'json_invalid', 'loc': ('body',), 'msg': 'JSON decode error: " + err.Error() + "'}"
}
